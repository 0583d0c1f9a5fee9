//! `./dev bench [NAME…]`: measures, and writes the tables of docs/benchmarks.md.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;
use holdfast_bench::figures::{Figure, Ground, Part};
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
    /// Of `lease`, measure only this; the tables are printed and not written
    #[arg(long, value_enum)]
    part: Vec<Part>,
    /// Print the tables and leave the document alone
    #[arg(long)]
    dry_run: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let of_lease = args.part.is_empty() || args.figures == [Figure::Lease];
    ensure!(of_lease, "only `lease` has parts: ./dev bench lease --part …");
    let ground = Ground {
        holdfast: args.holdfast.canonicalize().unwrap_or(args.holdfast),
        runs: args.runs,
        progress: Progress::start(),
        report: (!args.dry_run && args.part.is_empty()).then(|| Report::at(&args.report)),
        parts: args.part,
    };
    let figures = if args.figures.is_empty() { Figure::ALL.to_vec() } else { args.figures };
    for figure in figures {
        ground.measure(figure).await?;
    }
    Ok(())
}
