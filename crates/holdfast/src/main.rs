//! The one program: control plane, client and development network, chosen by the first word.

mod cli;
mod client;
mod clock;
mod commands;
mod config;
mod environment;
mod failure;
mod log;
mod output;
mod signals;
mod wiring;

use std::process::ExitCode;

use clap::Parser as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// No more files are open at once than this.
const FILES: u64 = 65_536;

/// Visitors, edges and questions to DNS each take an open file. Many systems allow 1,024 and more on request.
fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(FILES).min(FILES);
    if limit.current.is_some_and(|current| current < most) {
        // Where it is refused, fewer names are looked at at once.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
}

fn main() -> ExitCode {
    allow_open_files();
    let cli = cli::Cli::parse();
    let environment = environment::Environment::read();
    let ended = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            let ended = commands::run(cli, &environment).await;
            // Before connections are closed: closing them could touch files that are another database's by now.
            if let Err(failure @ failure::Failure::AtOnce(_)) = &ended {
                eprintln!("{failure}");
                std::process::exit(1);
            }
            ended
        }),
        Err(error) => {
            Err(failure::Failure::failed(format!("No threads can be started ({error}).")))
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.code()
        }
    }
}
