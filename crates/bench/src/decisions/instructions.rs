//! Instructions of the core's hot path, counted under valgrind and compared with recorded counts.
//!
//! Time depends on the machine and its load. The number of instructions does not, so a check that runs anywhere detects
//! a change that makes the core do more work. `next` decides; `observe` processes nodes, groups, pods and binds.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::scheduling_cases::{CasePolicy, SchedulingCase};

/// The counted cases: valgrind is fifty times slower.
const CASES: [&str; 6] = ["gang-1000x3", "gang-3x1000", "tas-750x4", "tas-3x1000", "single-1000", "single-1000-of-50"];

/// By how many percent a count may differ from the recorded one. Another compiler changes it by less.
const TOLERANCE_PERCENT: f64 = 10.0;

/// Counts one case or all, and compares them with the counts in `recorded`, if given.
pub fn run(case: Option<&str>, recorded: Option<&Path>) -> anyhow::Result<()> {
    let known = recorded.map(RecordedCounts::read).transpose()?;
    let version = valgrind_version()?;
    println!("{version}");
    println!("case                        of next  per decision       per pod    of observe");
    let mut deviations = Vec::new();
    for name in case.map_or(CASES.to_vec(), |case| vec![case]) {
        let count = InstructionCount::measure(&name.parse()?)?;
        println!("{}", count.line());
        deviations.extend(known.as_ref().and_then(|known| count.differs_from(known.counts.get(name))));
    }
    let hint = known.and_then(|known| known.version_hint(&version)).unwrap_or_default();
    ensure!(
        deviations.is_empty(),
        "{}\n{hint}if the change is intended, write the new counts to {}",
        deviations.join("\n"),
        recorded.unwrap_or(Path::new("the file")).display()
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

    fn differs_from(&self, recorded: Option<&[u64; 2]>) -> Option<String> {
        let Some(recorded) = recorded else { return Some(format!("{}: no count is recorded", self.case)) };
        let deviations = |(now, recorded): (u64, u64)| (now as f64 / recorded as f64 - 1.0) * 100.0;
        let [next, observe] = [(self.next, recorded[0]), (self.observe, recorded[1])].map(deviations);
        let is_off = next.abs() > TOLERANCE_PERCENT || observe.abs() > TOLERANCE_PERCENT;
        is_off.then(|| format!("{}: next {next:+.1} %, observe {observe:+.1} %", self.case))
    }
}

/// Counts the instructions of all calls of one function of the core.
fn count(case: &SchedulingCase, function: &str) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect=*scheduler_core::core*Core*::{function}"))
        .arg(std::env::current_exe()?)
        .args(["bench", "core", "--case", &case.name])
        .output()
        .context("running valgrind, which counts the instructions; it must be installed")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{case} under valgrind: {}: {stderr}", output.status);
    let count = stderr.lines().find_map(|line| line.split("Collected : ").nth(1));
    let count: u64 = count.context("valgrind prints the number of instructions")?.trim().parse()?;
    ensure!(count > 0, "valgrind did not find Core::{function}");
    Ok(count)
}

/// The installed version, such as `valgrind-3.19.0`.
fn valgrind_version() -> anyhow::Result<String> {
    let output =
        Command::new("valgrind").arg("--version").output().context("running valgrind, which must be installed")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The file with the recorded counts.
struct RecordedCounts {
    /// The instructions of `next` and of `observe`, by case.
    counts: BTreeMap<String, [u64; 2]>,
    /// The valgrind that counted them, as a comment of the file names it.
    version: Option<String>,
}

impl RecordedCounts {
    fn read(file: &Path) -> anyhow::Result<RecordedCounts> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        RecordedCounts::parse(&text)
    }

    /// Lines of a case, the instructions of `next` and those of `observe`; `#` starts a comment.
    fn parse(text: &str) -> anyhow::Result<RecordedCounts> {
        let lines =
            text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty());
        let read = |line: &str| {
            let mut words = line.split_whitespace();
            let case = words.next()?.to_owned();
            let counts = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
            Some((case, counts))
        };
        let counts = lines
            .map(|line| read(line).with_context(|| format!("{line:?} is not a case and two counts")))
            .collect::<anyhow::Result<_>>()?;
        let comments = text.lines().filter_map(|line| line.split_once('#')).flat_map(|(_, comment)| {
            comment.split(|letter: char| !(letter.is_alphanumeric() || letter == '-' || letter == '.'))
        });
        let version = comments.map(|word| word.trim_end_matches('.')).find(|word| word.starts_with("valgrind-"));
        Ok(RecordedCounts { counts, version: version.map(str::to_owned) })
    }

    /// A line for counts that differ although the program may be the same.
    fn version_hint(&self, version: &str) -> Option<String> {
        let recorded = self.version.as_deref().unwrap_or("an unknown version of valgrind");
        let hint = format!("this is {version}, the counts are of {recorded}: that alone can change them\n");
        (recorded != version).then_some(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_of_more_than_a_tenth_is_reported() {
        let case: SchedulingCase = "gang-3x3".parse().expect("a case");
        let count = InstructionCount { case, next: 1_000, observe: 500 };
        for (recorded, is_off) in
            [([1_000, 500], false), ([1_090, 460], false), ([1_120, 500], true), ([1_000, 450], true)]
        {
            assert_eq!(count.differs_from(Some(&recorded)).is_some(), is_off, "{recorded:?}");
        }
        assert!(count.differs_from(None).is_some());
    }
    #[test]
    fn another_valgrind_is_named_where_counts_differ() {
        let text = "# Instructions (x86-64, valgrind-3.19.0).\ngang-3x3 1000 500 # a comment\n";
        let recorded = RecordedCounts::parse(text).expect("a case");
        assert_eq!(recorded.counts["gang-3x3"], [1_000, 500]);
        assert_eq!(recorded.version_hint("valgrind-3.19.0"), None);
        let hint = recorded.version_hint("valgrind-3.24.0").expect("another version");
        assert!(hint.contains("this is valgrind-3.24.0, the counts are of valgrind-3.19.0"), "{hint}");
        let unknown = RecordedCounts::parse("gang-3x3 1000 500").expect("a case");
        assert!(unknown.version_hint("valgrind-3.24.0").expect("no version").contains("unknown"));
        assert!(RecordedCounts::parse("gang-3x3 1000").is_err());
    }

    #[test]
    fn the_recorded_counts_name_their_valgrind() {
        let recorded = RecordedCounts::parse(include_str!("instructions.txt")).expect("cases and counts");
        assert!(recorded.version.is_some());
        assert!(CASES.iter().all(|case| recorded.counts.contains_key(*case)));
    }
}
