//! Writes the ClusterRoles of the control loops, and the table of controllers, into docs/guides/cluster.md.

use anyhow::{Context, ensure};

const GUIDE: &str = "docs/guides/cluster.md";
const BEGIN_TABLE: &str = "<!-- The table below is written by `cargo xtask rbac`. -->\n";
const BEGIN_ROLES: &str = "<!-- The block below is written by `cargo xtask rbac`. -->\n";
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
    let updated = replace_block(&text, BEGIN_TABLE, &controlplane::rbac::controllers_table())?;
    let roles = format!("```yaml\n{}```\n", controlplane::rbac::cluster_roles());
    let updated = replace_block(&updated, BEGIN_ROLES, &roles)?;
    if args.check {
        ensure!(
            updated == text,
            "{GUIDE}: the controllers or their ClusterRoles are not those of the control loops; run `cargo xtask rbac`"
        );
        return Ok(());
    }
    std::fs::write(&path, updated).with_context(|| GUIDE)
}

/// The guide with `block` between the marker `begin` and the end marker.
fn replace_block(guide: &str, begin: &str, block: &str) -> anyhow::Result<String> {
    let (before, rest) = guide.split_once(begin).with_context(|| format!("{GUIDE}: no line {begin:?}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{GUIDE}: no line {END:?}"))?;
    Ok(format!("{before}{begin}{block}{END}{after}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_the_block_between_the_markers_is_replaced() {
        let guide = |table: &str, roles: &str| {
            format!("before\n{BEGIN_TABLE}{table}{END}between\n{BEGIN_ROLES}{roles}{END}after\n")
        };
        let old = guide("old\n", "old\n");
        assert_eq!(replace_block(&old, BEGIN_TABLE, "new\n").unwrap(), guide("new\n", "old\n"));
        assert_eq!(replace_block(&old, BEGIN_ROLES, "new\n").unwrap(), guide("old\n", "new\n"));
        assert!(replace_block("no markers", BEGIN_ROLES, "new\n").is_err());
    }
}
