//! The measure: a loop that sends the same commands over one connection, and writes, checks and remembers nothing. It waits for
//! each answer before it says the next, as a script does; or it sends ahead, exactly as the agent does.

use anyhow::{Result, ensure};
use holdfast_testkit::Haproxy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::certificate::Certificate;

/// So many are shown at once, after they were put in place.
const SHOWN: usize = 32;

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
}

impl Bare {
    pub(super) async fn connect(haproxy: &Haproxy) -> Result<Self> {
        let stream = UnixStream::connect(haproxy.socket()).await?;
        let directory = haproxy.path().join("bare").display().to_string();
        let list = haproxy.crt_list().display().to_string();
        let mut bare = Self { stream, directory, list };
        bare.say(&Burst::default().with("prompt\n")).await?;
        Ok(bare)
    }

    /// Sends a burst, and reads all answers to it.
    async fn say(&mut self, burst: &Burst) -> Result<String> {
        self.stream.write_all(burst.text.as_bytes()).await?;
        let (mut said, mut searched, mut prompts) = (Vec::new(), 0, 0);
        while prompts < burst.answers {
            ensure!(self.stream.read_buf(&mut said).await? > 0, "HAProxy hung up");
            while let Some(at) = said.get(searched..).and_then(prompt) {
                (searched, prompts) = (searched + at, prompts + 1);
            }
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    async fn say_all(&mut self, bursts: &[Burst]) -> Result<()> {
        for burst in bursts {
            let said = self.say(burst).await?;
            ensure!(!burst.text.contains("commit ") || said.contains("Success!"), "{said}");
        }
        Ok(())
    }

    fn file(&self, certificate: &Certificate) -> String {
        format!("{}/{}.pem", self.directory, certificate.name)
    }

    /// What puts these in memory.
    fn loads(&self, portion: &[Certificate], is_new: bool, manner: Manner) -> Vec<Burst> {
        let (mut bursts, mut burst) = (Vec::new(), Burst::default());
        for one in portion {
            let file = self.file(one);
            let new = is_new.then(|| format!("new ssl cert {file}\n"));
            let abort = format!("abort ssl cert {file}\n");
            let set = format!("set ssl cert {file} <<\n{}\n", one.pem());
            let commit = format!("commit ssl cert {file}\n");
            match manner {
                Manner::Waiting => {
                    let all = new.into_iter().chain([abort, set, commit]);
                    bursts.extend(all.map(|command| Burst::default().with(&command)));
                }
                Manner::Ahead => {
                    burst = new.iter().fold(burst, |burst, new| burst.with(new)).with(&abort);
                    bursts.push(burst);
                    burst = Burst::default().with(&set).with(&commit);
                }
            }
        }
        bursts.push(burst);
        bursts
    }

    /// What lists these, and shows them.
    fn ends(&self, portion: &[Certificate], is_new: bool, manner: Manner) -> Vec<Burst> {
        let add = |one: &Certificate| {
            let (list, file, name) = (&self.list, self.file(one), &one.name);
            format!("add ssl crt-list {list} <<\n{file} {name}\n\n")
        };
        let adds: Vec<_> = portion.iter().filter(|_| is_new).map(add).collect();
        let together = |burst: Burst, command: String| burst.with(&command);
        let mut bursts: Vec<_> = match manner {
            Manner::Waiting => {
                adds.iter().map(|command| Burst::default().with(command)).collect()
            }
            Manner::Ahead => vec![adds.into_iter().fold(Burst::default(), together)],
        };
        let shows = portion.iter().map(|one| format!("show ssl cert {}\n", self.file(one)));
        bursts.push(shows.fold(Burst::default(), together));
        bursts
    }

    /// Adds or renews these; how many per second.
    pub(super) async fn put(
        &mut self,
        certificates: &[Certificate],
        is_new: bool,
        manner: Manner,
    ) -> Result<f64> {
        let portions = certificates.chunks(SHOWN).map(|portion| {
            let ends = self.ends(portion, is_new, manner);
            self.loads(portion, is_new, manner).into_iter().chain(ends).collect::<Vec<_>>()
        });
        let portions: Vec<_> = portions.collect();
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
