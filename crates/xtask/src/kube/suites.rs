//! What is checked against the real control plane: `cargo xtask kube test`.

/// Options of `cargo xtask kube test`.
#[derive(clap::Args)]
pub struct Args {
    /// How many cases of the conformance suite are asked
    #[arg(long, default_value_t = crate::conformance::CASES)]
    cases: usize,
}

/// Runs every suite; the first that fails ends it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    crate::conformance::run_api(args.cases)
}
