//! Draws progress: bars on a terminal, a line per change elsewhere.

use std::collections::BTreeMap;

use api::views::PodPhase;
use console::{Alignment, Term, measure_text_width, pad_str, style, truncate_str};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::print;
use crate::run::progress::{GroupPolicy, TrackedWork, WorkState};

/// With more work than this, the rest is one line.
const MAX_BARS: usize = 20;
/// Narrower terminals get counts without bars.
const MIN_BAR_COLUMNS: usize = 60;
/// The least width of a line.
const MIN_COLUMNS: usize = 20;

/// Draws on standard error.
pub enum ProgressView {
    /// A terminal: one bar for each piece of work.
    Bars(Bars),
    /// Not a terminal: one line for each change of state.
    Lines(BTreeMap<String, (WorkState, Option<String>)>),
}

/// One bar for each piece of work.
pub struct Bars {
    terminal: Term,
    all: MultiProgress,
    bars: Vec<ProgressBar>,
}

impl ProgressView {
    /// Bars where standard error is a terminal.
    pub fn new() -> ProgressView {
        if print::is_interactive() {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            ProgressView::Bars(Bars { terminal: Term::stderr(), all, bars: Vec::new() })
        } else {
            ProgressView::Lines(BTreeMap::new())
        }
    }

    /// Shows the state of `works`.
    pub fn show(&mut self, works: &[TrackedWork]) {
        match self {
            ProgressView::Bars(bars) => bars.show(works),
            ProgressView::Lines(printed) => {
                for work in works {
                    let now = (work.state, wait_text(work));
                    if printed.get(&work.title) != Some(&now) {
                        eprintln!("{}", line(work));
                        printed.insert(work.title.clone(), now);
                    }
                }
            }
        }
    }

    /// Prints a line that stays.
    pub fn print_line(&self, line: &str) {
        match self {
            // An error means that the terminal is gone, and with it the reader.
            ProgressView::Bars(bars) => _ = bars.all.println(wrap_line(line, bars.terminal.size().1.into())),
            ProgressView::Lines(_) => eprintln!("{line}"),
        }
    }

    /// Leaves the last state on the screen.
    pub fn finish(&mut self) {
        if let ProgressView::Bars(bars) = self {
            bars.bars.iter().for_each(ProgressBar::abandon);
        }
    }
}

/// Prints a line on standard error; on a terminal it is broken between words.
pub fn print_message(line: &str) {
    if print::is_interactive() {
        eprintln!("{}", wrap_line(line, Term::stderr().size().1.into()));
    } else {
        eprintln!("{line}");
    }
}

/// Wraps `line` between words at `columns` characters; all lines but the first are indented.
fn wrap_line(line: &str, columns: usize) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in line.split(' ') {
        let word_width = measure_text_width(word);
        if width > 0 && width + 1 + word_width >= columns {
            text.push_str("\n  ");
            width = 2;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += word_width;
    }
    text
}

impl Bars {
    /// One line for each piece of work, as wide as the terminal is now, and no more lines than it has.
    fn show(&mut self, works: &[TrackedWork]) {
        let (rows, columns) = self.terminal.size();
        let lines_max = MAX_BARS.min(usize::from(rows).saturating_sub(2)).max(1);
        let lines = lines(works, usize::from(columns), lines_max);
        while self.bars.len() < lines.len() {
            let bar = self.all.add(ProgressBar::new(0));
            bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is a constant and well formed"));
            self.bars.push(bar);
        }
        let blank = std::iter::repeat(String::new());
        for (bar, line) in self.bars.iter().zip(lines.into_iter().chain(blank)) {
            bar.set_message(line);
        }
    }
}

/// At most `lines_max` lines of at most `columns` characters: title, bar, count, and what fits of the message.
fn lines(works: &[TrackedWork], columns: usize, lines_max: usize) -> Vec<String> {
    // A terminal wraps when the last column is written.
    let columns = columns.saturating_sub(1).max(MIN_COLUMNS);
    let is_folded = works.len() > lines_max;
    let shown = &works[..if is_folded { lines_max - 1 } else { works.len() }];
    let titles = shown.iter().map(|work| measure_text_width(&work.title)).max().unwrap_or(0).min(columns / 3);
    let counts = shown.iter().map(|work| 2 * work.desired_pods.to_string().len() + 1).max().unwrap_or(0);
    let bar = if columns < MIN_BAR_COLUMNS { 0 } else { (columns / 4).min(30) };
    let mut lines: Vec<String> = shown
        .iter()
        .map(|work| {
            let done = pods_done(work);
            let title = pad_str(&truncate_str(&work.title, titles, "…"), titles, Alignment::Left, None).into_owned();
            let count = format!("{done}/{}", work.desired_pods);
            let start = format!("{title} {}{count:>counts$} ", bar_text(done, work.desired_pods, bar));
            let left = columns.saturating_sub(measure_text_width(&start));
            let message = if bar == 0 { short_message(work) } else { message(work) };
            format!("{start}{}", truncate_str(&message, left, "…"))
        })
        .collect();
    if is_folded {
        let rest = &works[shown.len()..];
        let settled = rest.iter().filter(|work| work.state.is_finished()).count();
        let text = format!("… and {} more, {settled} of them ended", rest.len());
        lines.push(truncate_str(&text, columns, "…").into_owned());
    }
    lines
}

/// How many of its pods have reached its state.
fn pods_done(work: &TrackedWork) -> usize {
    let done = match work.state {
        WorkState::Blocked | WorkState::Waiting | WorkState::Suspended | WorkState::Scheduled => 0,
        WorkState::Placed => work.pods_on_nodes() + work.count(PodPhase::Succeeded),
        _ => work.count(PodPhase::Running) + work.count(PodPhase::Succeeded),
    };
    done.min(work.desired_pods)
}

/// `[███░░░] `, this many characters wide; empty for 0.
fn bar_text(done: usize, wanted: usize, width: usize) -> String {
    if width == 0 {
        return String::new();
    }
    let full = done * width / wanted.max(1);
    let (done, left) = ("█".repeat(full), "░".repeat(width - full));
    format!("[{}{left}] ", style(done).green().for_stderr())
}

fn line(work: &TrackedWork) -> String {
    format!("{}: {}", work.title, message(work))
}

/// State, policy and, if it is pending, the reason.
fn message(work: &TrackedWork) -> String {
    let policy = match work.policy {
        Some(GroupPolicy::Gang(min)) => format!(" (gang of {min})"),
        _ => String::new(),
    };
    format!("{}{policy}{}", work.state.as_str(), detail(work))
}

/// The same for narrow terminals.
fn short_message(work: &TrackedWork) -> String {
    format!("{}{}", work.state.as_str(), detail(work))
}

fn detail(work: &TrackedWork) -> String {
    let detail = match work.state {
        WorkState::Failed => work.failure.clone(),
        WorkState::Blocked | WorkState::Waiting => wait_text(work),
        WorkState::Placed | WorkState::Running if work.obstacle.is_some() => work.obstacle.clone(),
        WorkState::Placed | WorkState::Running => {
            let (running, done) = (work.count(PodPhase::Running), work.count(PodPhase::Succeeded));
            Some(format!("{running} running, {done} done of {}", work.desired_pods))
        }
        WorkState::Scheduled => work.schedule.clone(),
        WorkState::Succeeded | WorkState::Suspended => None,
    };
    detail.map_or(String::new(), |detail| format!(": {detail}"))
}

/// Why it is pending.
fn wait_text(work: &TrackedWork) -> Option<String> {
    let refusal = || work.refusal.as_ref().filter(|_| work.state == WorkState::Waiting);
    work.obstacle.clone().or_else(|| refusal().map(|refusal| refusal.plain_message()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use api::views::{JobView, View};
    use console::strip_ansi_codes;

    use super::*;
    use crate::run::progress::{ClusterSnapshot, survey};

    fn jobs(count: usize) -> Vec<TrackedWork> {
        let job = |n: usize| {
            let name = if n == 0 { "t".to_owned() } else { format!("a-job-whose-name-is-rather-long-{n}") };
            let document = serde_json::json!({
                "metadata": {"name": name, "namespace": "default", "uid": name},
                "spec": {"parallelism": 64, "completions": 64 * n, "managedBy": "example.com/another-controller"},
            });
            Arc::new(JobView::decode(document.to_string().as_bytes()).unwrap())
        };
        survey(&ClusterSnapshot { jobs: (0..count).map(job).collect(), ..ClusterSnapshot::default() })
    }

    #[test]
    fn progress_fits_the_terminal() {
        for (columns, rows) in [(200, 20), (80, 20), (60, 5), (40, 20), (20, 3), (5, 1)] {
            for count in [0, 1, 3, 30] {
                let lines = lines(&jobs(count), columns, rows);
                assert!(lines.len() <= rows && lines.len() == count.min(rows), "{columns}x{rows}: {lines:#?}");
                let widest = lines.iter().map(|line| measure_text_width(line)).max().unwrap_or(0);
                assert!(widest < columns.max(MIN_COLUMNS + 1), "{columns}: {lines:#?}");
            }
        }
    }

    #[test]
    fn long_lines_break_between_words() {
        assert_eq!(wrap_line("job/a: cannot finish: too large", 16), "job/a: cannot\n  finish: too\n  large");
        assert_eq!(wrap_line("short", 80), "short");
        assert_eq!(wrap_line("averyveryverylongword b", 10), "averyveryverylongword\n  b");
    }

    #[test]
    fn a_narrow_terminal_still_shows_title_count_and_state() {
        let shown = |columns: usize| {
            let lines: Vec<String> =
                lines(&jobs(2), columns, 20).iter().map(|line| strip_ansi_codes(line).into()).collect();
            lines.join("\n")
        };
        assert_eq!(
            shown(40),
            "\
job/t           0/0 blocked: spec.mana…
job/a-job-wh…  0/64 blocked: spec.mana…"
        );
        assert_eq!(
            shown(80),
            "\
job/t                      [░░░░░░░░░░░░░░░░░░░]   0/0 blocked: spec.managedBy…
job/a-job-whose-name-is-r… [░░░░░░░░░░░░░░░░░░░]  0/64 blocked: spec.managedBy…"
        );
    }
}
