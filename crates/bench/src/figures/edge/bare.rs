//! The measure: a loop that sends the same commands over one connection, and writes, checks and remembers nothing. It waits for
//! each answer before it says the next, as a script does; or it sends ahead, exactly as the agent does.

use anyhow::{Result, ensure};
use holdfast_testkit::Haproxy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::certificate::Certificate;

/// So many are listed together.
const PORTION: usize = 32;

/// When the next command is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// After the answer to the one before.
    Waiting,
    /// As soon as the agent would.
    Ahead,
}

/// Commands that are sent together.
#[derive(Default)]
struct Burst {
    text: String,
    answers: usize,
    /// So many of the last answers need not be waited for.
    late: usize,
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
    /// So many answers are still to come.
    owed: usize,
}

impl Bare {
    pub(super) async fn connect(haproxy: &Haproxy) -> Result<Self> {
        let stream = UnixStream::connect(haproxy.socket()).await?;
        let directory = haproxy.path().join("bare").display().to_string();
        let list = haproxy.crt_list().display().to_string();
        let mut bare = Self { stream, directory, list, read: Vec::new(), owed: 0 };
        bare.say(&Burst::default().with("prompt\n")).await?;
        Ok(bare)
    }

    /// Sends a burst, and reads the answers to it that are to be waited for.
    async fn say(&mut self, burst: &Burst) -> Result<String> {
        self.stream.write_all(burst.text.as_bytes()).await?;
        self.owed += burst.answers;
        let mut said = String::new();
        while self.owed > burst.late {
            if let Some(end) = prompt(&self.read) {
                said += &String::from_utf8_lossy(&self.read.drain(..end).collect::<Vec<_>>());
                self.owed -= 1;
                continue;
            }
            ensure!(self.stream.read_buf(&mut self.read).await? > 0, "HAProxy hung up");
        }
        Ok(said)
    }

    async fn say_all(&mut self, bursts: &[Burst]) -> Result<()> {
        for burst in bursts {
            let said = self.say(burst).await?;
            ensure!(!said.contains("rror") && !said.contains("an't"), "{said}");
        }
        Ok(())
    }

    fn file(&self, certificate: &Certificate) -> String {
        format!("{}/{}.pem", self.directory, certificate.name)
    }

    /// What puts these in memory, lists them and shows them.
    fn bursts(&self, portion: &[Certificate], is_new: bool, manner: Manner) -> Vec<Burst> {
        let together = |burst: Burst, command: &String| burst.with(command);
        let (mut bursts, mut adds) = (Vec::new(), Vec::new());
        // What goes behind the commit of the one before: that, and to be shown it.
        let (mut commit_last, mut show_last) = (None, None);
        for one in portion {
            let (file, name, list) = (self.file(one), &one.name, &self.list);
            let new = is_new.then(|| format!("new ssl cert {file}\n"));
            let abort = format!("abort ssl cert {file}\n");
            let set = format!("set ssl cert {file} <<\n{}\n", one.pem());
            let commit = format!("commit ssl cert {file}\n");
            adds.extend(is_new.then(|| format!("add ssl crt-list {list} <<\n{file} {name}\n\n")));
            let show = format!("show ssl cert {file}\n");
            match manner {
                Manner::Waiting => {
                    let all = new.into_iter().chain([abort, set, commit, show]);
                    bursts.extend(all.map(|command| Burst::default().with(&command)));
                }
                Manner::Ahead => {
                    let late = show_last.iter().len();
                    let all = commit_last.iter().chain(&new).chain([&abort]).chain(&show_last);
                    bursts.push(Burst { late, ..all.fold(Burst::default(), together) });
                    bursts.push(Burst::default().with(&set));
                    (commit_last, show_last) = (Some(commit), Some(show));
                }
            }
        }
        match manner {
            Manner::Waiting => {
                bursts.extend(adds.iter().map(|command| Burst::default().with(command)));
            }
            Manner::Ahead => {
                let all = commit_last.iter().chain(&show_last).chain(&adds);
                bursts.push(all.fold(Burst::default(), together));
            }
        }
        bursts
    }

    /// Adds or renews these; how many per second.
    pub(super) async fn put(
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
            self.say_all(bursts).await?;
        }
        Ok(certificates.len() as f64 / begun.elapsed().as_secs_f64())
    }
}

/// Where the first answer ends.
fn prompt(text: &[u8]) -> Option<usize> {
    const PROMPT: &[u8] = b"\n> ";
    Some(text.windows(PROMPT.len()).position(|window| window == PROMPT)? + PROMPT.len())
}
