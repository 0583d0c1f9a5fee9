//! `./dev bench [NAME…]`: measures, and writes the tables of docs/benchmarks.md.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use holdfast_bench::figures::{Figure, Ground};
use holdfast_bench::progress::Progress;
use holdfast_bench::report::Report;

/// Measures Holdfast on this machine, beside its peers
#[derive(Parser)]
#[command(name = "./dev bench")]
struct Args {
    /// What to measure; everything unless named
    #[arg(value_enum)]
    figures: Vec<Figure>,
    /// The release binary
    #[arg(long, default_value = "target/release/holdfast")]
    holdfast: PathBuf,
    /// Interleaved runs that a figure is the median of
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// The document whose tables are replaced
    #[arg(long, default_value = "docs/benchmarks.md")]
    report: PathBuf,
    /// Print the tables and leave the document alone
    #[arg(long)]
    dry_run: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let ground = Ground {
        holdfast: args.holdfast.canonicalize().unwrap_or(args.holdfast),
        runs: args.runs,
        progress: Progress::start(),
        report: (!args.dry_run).then(|| Report::at(&args.report)),
    };
    let figures = if args.figures.is_empty() { Figure::ALL.to_vec() } else { args.figures };
    for figure in figures {
        ground.measure(figure).await?;
    }
    Ok(())
}
