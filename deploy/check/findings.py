"""What was found wrong, and the commands that find it."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


class Findings:
    """Collects sentences, so that one run tells everything."""

    def __init__(self):
        self.sentences = []
        self.passed = 0

    def require(self, holds, sentence):
        """Keeps the sentence unless the condition holds."""
        if holds:
            self.passed += 1
        else:
            self.sentences.append(sentence)
        return bool(holds)

    def ends_well(self, what, command, **options):
        """Runs a command; what it wrote counts only when it fails."""
        ended = run(command, **options)
        said = (ended.stdout + ended.stderr).strip()
        return self.require(ended.returncode == 0, f"{what}: `{name(command)}` says:\n{indent(said)}")


def run(command, **options):
    """Runs a command to its end and keeps what it wrote."""
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False, **options)


def name(command):
    """A command as people would type it, without what they would not read."""
    words = [str(word).replace(f"{ROOT}/", "") for word in command]
    return " ".join(words[:6]) + (" …" if len(words) > 6 else "")


def indent(text):
    return "\n".join(f"      {line}" for line in text.splitlines())
