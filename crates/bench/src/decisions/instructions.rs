//! Instructions of the core's hot path, counted under valgrind and held against those that were kept.
//!
//! Time depends on the machine and on who else uses it; the number of instructions does not. So a change that makes the
//! core do more is seen by a check that runs anywhere. `next` decides; `observe` takes in nodes, groups, pods and binds.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::scheduling_cases::{CasePolicy, SchedulingCase};

/// What is counted: valgrind is fifty times slower.
const CASES: [&str; 6] = ["gang-1000x3", "gang-3x1000", "tas-750x4", "tas-3x1000", "single-1000", "single-1000-of-50"];

/// By how many percent a count may differ from the kept one. Another compiler moves it by less.
const TOLERANCE_PERCENT: f64 = 10.0;

/// Counts one case or all, and compares with the counts in `kept` if there is such a file.
pub fn run(case: Option<&str>, kept: Option<&Path>) -> anyhow::Result<()> {
    let known = kept.map(read).transpose()?;
    println!("case                        of next  per decision       per pod    of observe");
    let mut off = Vec::new();
    for name in case.map_or(CASES.to_vec(), |case| vec![case]) {
        let counted = InstructionCount::measure(&name.parse()?)?;
        println!("{}", counted.line());
        off.extend(known.as_ref().and_then(|known| counted.differs_from(known.get(name))));
    }
    ensure!(
        off.is_empty(),
        "{}\nif that is meant, write the new counts into {}",
        off.join("\n"),
        kept.unwrap_or(Path::new("the file")).display()
    );
    Ok(())
}

/// Instructions of one case.
struct InstructionCount {
    case: SchedulingCase,
    next: u64,
    observe: u64,
}

impl InstructionCount {
    fn measure(case: &SchedulingCase) -> anyhow::Result<InstructionCount> {
        let (next, observe) = (count(case, "next")?, count(case, "observe")?);
        Ok(InstructionCount { case: case.clone(), next, observe })
    }

    fn line(&self) -> String {
        let decisions = if self.case.policy == CasePolicy::Single { self.case.pods() } else { self.case.groups };
        let per = |count: usize| self.next / count.max(1) as u64;
        let (per_decision, per_pod) = (per(decisions), per(self.case.pods()));
        format!("{:<22} {:>12} {per_decision:>13} {per_pod:>13} {:>13}", self.case, self.next, self.observe)
    }

    fn differs_from(&self, kept: Option<&[u64; 2]>) -> Option<String> {
        let Some(kept) = kept else { return Some(format!("{}: no counts are kept", self.case)) };
        let off = |(now, kept): (u64, u64)| (now as f64 / kept as f64 - 1.0) * 100.0;
        let [next, observe] = [(self.next, kept[0]), (self.observe, kept[1])].map(off);
        let is_off = next.abs() > TOLERANCE_PERCENT || observe.abs() > TOLERANCE_PERCENT;
        is_off.then(|| format!("{}: next {next:+.1} %, observe {observe:+.1} %", self.case))
    }
}

/// Counts the instructions of all calls of one function of the core.
fn count(case: &SchedulingCase, function: &str) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect=*scheduler_core::state*Core*::{function}"))
        .arg(std::env::current_exe()?)
        .args(["bench", "core", "--case", &case.name])
        .output()
        .context("running valgrind, which counts the instructions: install it")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{case} under valgrind: {}: {said}", output.status);
    let counted = said.lines().find_map(|line| line.split("Collected : ").nth(1));
    let counted: u64 = counted.context("valgrind tells what it collected")?.trim().parse()?;
    ensure!(counted > 0, "valgrind did not find Core::{function}");
    Ok(counted)
}

/// Kept counts: lines of a case, the instructions of `next` and those of `observe`; what follows `#` is for people.
fn read(file: &Path) -> anyhow::Result<BTreeMap<String, [u64; 2]>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let lines =
        text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty());
    let read = |line: &str| {
        let mut words = line.split_whitespace();
        let case = words.next()?.to_owned();
        let counts = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
        Some((case, counts))
    };
    lines.map(|line| read(line).with_context(|| format!("{line:?} is not a case and two counts"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_more_or_less_is_told() {
        let case: SchedulingCase = "gang-3x3".parse().expect("a case");
        let counted = InstructionCount { case, next: 1_000, observe: 500 };
        for (kept, is_off) in [([1_000, 500], false), ([1_090, 460], false), ([1_120, 500], true), ([1_000, 450], true)]
        {
            assert_eq!(counted.differs_from(Some(&kept)).is_some(), is_off, "{kept:?}");
        }
        assert!(counted.differs_from(None).is_some());
    }
}
