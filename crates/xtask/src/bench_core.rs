//! The scheduler's decisions alone, no API: milliseconds per group for each shape.

/// Options of `cargo xtask bench core`.
#[derive(clap::Args)]
pub struct Args {
    /// Run only this case
    #[arg(long)]
    pub case: Option<String>,
    /// Also write one JSON object a line to this file
    #[arg(long)]
    pub json: Option<std::path::PathBuf>,
}

pub fn run(_args: &Args) -> anyhow::Result<()> {
    anyhow::bail!("no case is there yet")
}
