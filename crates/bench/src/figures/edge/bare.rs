//! The measure: a loop that sends the same commands over one connection, and writes, checks and remembers nothing. It waits for
//! each answer before it says the next, as a script does; or it sends ahead, in the agent's order. It blocks a thread of its
//! own: nothing stands between it and the socket.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use anyhow::{Result, ensure};
use holdfast_testkit::Haproxy;
use tokio::time::Instant;

use super::certificate::Certificate;

/// So many are listed together.
const PORTION: usize = 32;

/// When the next command is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// After the answer to the one before, and certificates as they are in files.
    Waiting,
    /// As soon as the agent would, and certificates in lines as long as the agent's.
    Ahead,
}

/// Commands that are sent together.
#[derive(Default)]
struct Burst {
    text: String,
    answers: usize,
}

impl Burst {
    fn with(mut self, command: &str) -> Self {
        self.text += command;
        self.answers += 1;
        self
    }
}

pub(super) struct Bare {
    stream: UnixStream,
    directory: String,
    list: String,
    /// What was read and not looked at.
    read: Vec<u8>,
}

impl Bare {
    pub(super) fn connect(haproxy: &Haproxy) -> Result<Self> {
        let stream = UnixStream::connect(haproxy.socket())?;
        let directory = haproxy.path().join("bare").display().to_string();
        let list = haproxy.crt_list().display().to_string();
        let mut bare = Self { stream, directory, list, read: Vec::new() };
        bare.say(&Burst::default().with("prompt\n"))?;
        Ok(bare)
    }

    /// Sends a burst, and reads the answers to it.
    fn say(&mut self, burst: &Burst) -> Result<String> {
        self.stream.write_all(burst.text.as_bytes())?;
        let (mut owed, mut said, mut part) = (burst.answers, String::new(), [0; 16_384]);
        while owed > 0 {
            if let Some(end) = prompt(&self.read) {
                said += &String::from_utf8_lossy(&self.read.drain(..end).collect::<Vec<_>>());
                owed -= 1;
                continue;
            }
            let count = self.stream.read(&mut part)?;
            ensure!(count > 0, "HAProxy hung up");
            self.read.extend(part.iter().take(count));
        }
        Ok(said)
    }

    fn say_all(&mut self, bursts: &[Burst]) -> Result<()> {
        for burst in bursts {
            let said = self.say(burst)?;
            ensure!(!said.contains("rror") && !said.contains("an't"), "{said}");
        }
        Ok(())
    }

    fn file(&self, certificate: &Certificate) -> String {
        format!("{}/{}.pem", self.directory, certificate.name)
    }

    /// What puts these in memory, lists them and shows them.
    fn bursts(&self, portion: &[Certificate], is_new: bool, manner: Manner) -> Vec<Burst> {
        let (mut bursts, mut adds) = (Vec::new(), Vec::new());
        // What is sent ahead: the commit of the one before goes first, and to be shown it last.
        let (mut ahead, mut show_last) = (Burst::default(), None);
        for one in portion {
            let (file, name, list) = (self.file(one), &one.name, &self.list);
            let new = is_new.then(|| format!("new ssl cert {file}\n"));
            let pem = match manner {
                Manner::Waiting => one.pem(),
                Manner::Ahead => wide(&one.pem()),
            };
            let set = format!("set ssl cert {file} <<\n{pem}\n");
            let commit = format!("commit ssl cert {file}\n");
            let show = format!("show ssl cert {file}\n");
            adds.extend(is_new.then(|| format!("add ssl crt-list {list} <<\n{file} {name}\n\n")));
            match manner {
                Manner::Waiting => {
                    let all = new.into_iter().chain([set, commit, show]);
                    bursts.extend(all.map(|command| Burst::default().with(&command)));
                }
                Manner::Ahead => {
                    let all = new.iter().chain([&set]).chain(&show_last);
                    bursts.push(all.fold(ahead, |burst, command| burst.with(command)));
                    (ahead, show_last) = (Burst::default().with(&commit), Some(show));
                }
            }
        }
        match manner {
            Manner::Waiting => {
                bursts.extend(adds.iter().map(|command| Burst::default().with(command)));
            }
            Manner::Ahead => {
                let all = show_last.iter().chain(&adds);
                bursts.push(all.fold(ahead, |burst, command| burst.with(command)));
            }
        }
        bursts
    }

    /// Adds or renews these; how many per second.
    pub(super) fn put(
        &mut self,
        certificates: &[Certificate],
        is_new: bool,
        manner: Manner,
    ) -> Result<f64> {
        let portions = certificates.chunks(PORTION);
        let portions: Vec<_> =
            portions.map(|portion| self.bursts(portion, is_new, manner)).collect();
        let begun = Instant::now();
        for bursts in &portions {
            self.say_all(bursts)?;
        }
        Ok(certificates.len() as f64 / begun.elapsed().as_secs_f64())
    }
}

/// Three lines in one, as the agent sends them.
fn wide(pem: &str) -> String {
    let mut lines = Vec::<String>::new();
    for line in pem.lines() {
        match lines.last_mut() {
            Some(last) if !last.starts_with('-') && !line.starts_with('-') && last.len() < 192 => {
                last.push_str(line);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

/// Where the first answer ends.
fn prompt(text: &[u8]) -> Option<usize> {
    const PROMPT: &[u8] = b"\n> ";
    Some(text.windows(PROMPT.len()).position(|window| window == PROMPT)? + PROMPT.len())
}
