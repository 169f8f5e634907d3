//! Writes the ClusterRoles of the control loops into docs/guides/cluster.md.

use anyhow::{Context, ensure};

const GUIDE: &str = "docs/guides/cluster.md";
const BEGIN: &str = "<!-- The block below is written by `cargo xtask rbac`. -->\n";
const END: &str = "<!-- End of the written block. -->\n";

/// Options of `cargo xtask rbac`.
#[derive(clap::Args)]
pub struct Args {
    /// Fails if the guide has other roles, and writes nothing
    #[arg(long)]
    check: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let path = supervisor::repository_root()?.join(GUIDE);
    let text = std::fs::read_to_string(&path).with_context(|| GUIDE)?;
    let updated = replace_block(&text, &controlplane::rbac::cluster_roles())?;
    if args.check {
        ensure!(
            updated == text,
            "{GUIDE}: the ClusterRoles are not those of the control loops; run `cargo xtask rbac`"
        );
        return Ok(());
    }
    std::fs::write(&path, updated).with_context(|| GUIDE)
}

/// The guide with `roles` between the markers.
fn replace_block(guide: &str, roles: &str) -> anyhow::Result<String> {
    let (before, rest) = guide.split_once(BEGIN).with_context(|| format!("{GUIDE}: no line {BEGIN:?}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{GUIDE}: no line {END:?}"))?;
    Ok(format!("{before}{BEGIN}```yaml\n{roles}```\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_the_block_between_the_markers_is_replaced() {
        let guide = format!("before\n{BEGIN}old\n{END}after\n");
        let want = format!("before\n{BEGIN}```yaml\nroles\n```\n{END}after\n");
        assert_eq!(replace_block(&guide, "roles\n").unwrap(), want);
        assert!(replace_block("no markers", "roles\n").is_err());
    }
}
