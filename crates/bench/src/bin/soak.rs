//! `./dev soak [MINUTES]`: kills, faults and restarts, and a look for what must never be true.

use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use holdfast_bench::soak::Soak;

/// Wears Holdfast down on this machine
#[derive(Parser)]
#[command(name = "./dev soak")]
struct Args {
    /// For how long new blows are dealt
    #[arg(default_value_t = 10)]
    minutes: u64,
    /// The chances of an earlier run again
    #[arg(long)]
    seed: Option<u64>,
    /// The binary
    #[arg(long, default_value = "target/release/holdfast")]
    holdfast: PathBuf,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(args.minutes) >> 32);
    let holdfast = args.holdfast.canonicalize().unwrap_or(args.holdfast);
    Soak { holdfast, minutes: args.minutes, seed }.run().await?;
    println!(
        "\nNothing was lost, and nothing ran twice. Again with: ./dev soak {} --seed {seed}",
        args.minutes
    );
    Ok(())
}
