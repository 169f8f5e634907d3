//! Why a rule, or a row of the inventory, has no test yet: docs/open.yaml.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// Why rules are open. Every open rule has a reason of its own or that of its area.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OpenRules {
    /// The reasons by name, as text.
    pub reasons: BTreeMap<String, String>,
    /// The reason of every open rule below a heading of requirements.md or of inventory.yaml.
    pub areas: BTreeMap<String, String>,
    /// The reason of one rule, by its id.
    pub rules: BTreeMap<String, String>,
}

/// Reads the file.
pub fn read(root: &Path) -> anyhow::Result<OpenRules> {
    let path = root.join("docs/open.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
}

impl OpenRules {
    /// Why the rule `id` below the heading `area` is open.
    pub fn reason(&self, area: &str, id: &str) -> anyhow::Result<&str> {
        let name = self.rules.get(id).or_else(|| self.areas.get(area)).with_context(|| {
            format!(
                "{id} is shown by no test: show it (`// Shows: {id}` above one), or add the reason to docs/open.yaml"
            )
        })?;
        let text = self.reasons.get(name);
        text.map(String::as_str).with_context(|| format!("docs/open.yaml: {id}: there is no reason {name:?}"))
    }

    /// Refuses entries for unknown rules, unknown headings and rules that a test shows, and unused reasons.
    pub fn check(
        &self,
        known: &BTreeSet<String>,
        areas: &BTreeSet<String>,
        is_shown: impl Fn(&str) -> bool,
    ) -> anyhow::Result<()> {
        for id in self.rules.keys() {
            ensure!(
                known.contains(id),
                "docs/open.yaml: {id} is not a rule of docs/requirements.md or a row of docs/inventory.yaml"
            );
            ensure!(!is_shown(id), "docs/open.yaml: {id} is shown by a test: remove its reason");
        }
        for area in self.areas.keys() {
            ensure!(
                areas.contains(area),
                "docs/open.yaml: docs/requirements.md and docs/inventory.yaml have no heading {area:?}"
            );
        }
        let used: BTreeSet<&String> = self.areas.values().chain(self.rules.values()).collect();
        for name in self.reasons.keys() {
            ensure!(used.contains(name), "docs/open.yaml: nothing is open for the reason {name:?}: remove it");
        }
        Ok(())
    }
}
