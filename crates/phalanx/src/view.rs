//! Draws progress: bars on a terminal, a line per change elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use api::views::PodPhase;
use console::{Alignment, Term, measure_text_width, pad_str, style, truncate_str};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::progress::{Policy, State, Work};

/// More bars than this are folded into one line.
const BARS_MAX: usize = 20;
/// A narrower terminal than this gets counts without bars.
const BAR_COLUMNS_MIN: usize = 60;
/// Lines are not made narrower than this.
const COLUMNS_MIN: usize = 20;

/// Draws on standard error.
pub enum View {
    /// A terminal: one bar for each piece of work.
    Bars(Bars),
    /// Not a terminal: one line for each change of state.
    Lines(BTreeMap<String, (State, Option<String>)>),
}

/// One bar for each piece of work.
pub struct Bars {
    terminal: Term,
    all: MultiProgress,
    bars: Vec<ProgressBar>,
}

impl View {
    /// Bars where standard error is a terminal.
    pub fn new() -> View {
        if std::io::stderr().is_terminal() {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            View::Bars(Bars { terminal: Term::stderr(), all, bars: Vec::new() })
        } else {
            View::Lines(BTreeMap::new())
        }
    }

    /// Shows where `works` stand.
    pub fn show(&mut self, works: &[Work]) {
        match self {
            View::Bars(bars) => bars.show(works),
            View::Lines(seen) => {
                for work in works {
                    let now = (work.state, wait_text(work));
                    if seen.get(&work.title) != Some(&now) {
                        eprintln!("{}", line(work));
                        seen.insert(work.title.clone(), now);
                    }
                }
            }
        }
    }

    /// Prints a line that stays.
    pub fn say(&self, line: &str) {
        match self {
            // Where the terminal is gone, so is its reader.
            View::Bars(bars) => _ = bars.all.println(folded(line, bars.terminal.size().1.into())),
            View::Lines(_) => eprintln!("{line}"),
        }
    }

    /// Leaves the last state on the screen.
    pub fn finish(&mut self) {
        if let View::Bars(bars) = self {
            bars.bars.iter().for_each(ProgressBar::abandon);
        }
    }
}

/// Prints a line on standard error; on a terminal it is broken between words.
pub fn print_message(line: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("{}", folded(line, Term::stderr().size().1.into()));
    } else {
        eprintln!("{line}");
    }
}

/// `line` in lines of at most `columns` signs, as far as its words allow; all but the first are indented.
fn folded(line: &str, columns: usize) -> String {
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
    fn show(&mut self, works: &[Work]) {
        let (rows, columns) = self.terminal.size();
        let lines_max = BARS_MAX.min(usize::from(rows).saturating_sub(2)).max(1);
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
fn lines(works: &[Work], columns: usize, lines_max: usize) -> Vec<String> {
    // A terminal moves on to the next line when the last column is written.
    let columns = columns.saturating_sub(1).max(COLUMNS_MIN);
    let is_folded = works.len() > lines_max;
    let shown = &works[..if is_folded { lines_max - 1 } else { works.len() }];
    let titles = shown.iter().map(|work| measure_text_width(&work.title)).max().unwrap_or(0).min(columns / 3);
    let counts = shown.iter().map(|work| 2 * work.wanted.to_string().len() + 1).max().unwrap_or(0);
    let bar = if columns < BAR_COLUMNS_MIN { 0 } else { (columns / 4).min(30) };
    let mut lines: Vec<String> = shown
        .iter()
        .map(|work| {
            let done = done(work);
            let title = pad_str(&truncate_str(&work.title, titles, "…"), titles, Alignment::Left, None).into_owned();
            let count = format!("{done}/{}", work.wanted);
            let start = format!("{title} {}{count:>counts$} ", bar_text(done, work.wanted, bar));
            let left = columns.saturating_sub(measure_text_width(&start));
            let message = if bar == 0 { short_message(work) } else { message(work) };
            format!("{start}{}", truncate_str(&message, left, "…"))
        })
        .collect();
    if is_folded {
        let rest = &works[shown.len()..];
        let settled = rest.iter().filter(|work| work.state.is_settled()).count();
        let text = format!("… and {} more, {settled} of them ended", rest.len());
        lines.push(truncate_str(&text, columns, "…").into_owned());
    }
    lines
}

/// How many of its pods have come as far as its state says.
fn done(work: &Work) -> usize {
    let done = match work.state {
        State::Blocked | State::Waiting | State::Suspended | State::Scheduled => 0,
        State::Placed => work.occupying() + work.count(PodPhase::Succeeded),
        _ => work.count(PodPhase::Running) + work.count(PodPhase::Succeeded),
    };
    done.min(work.wanted)
}

/// `[███░░░] `, of so many signs; nothing where there is no room for it.
fn bar_text(done: usize, wanted: usize, signs: usize) -> String {
    if signs == 0 {
        return String::new();
    }
    let full = done * signs / wanted.max(1);
    let (done, left) = ("█".repeat(full), "░".repeat(signs - full));
    format!("[{}{left}] ", style(done).green().for_stderr())
}

fn line(work: &Work) -> String {
    format!("{}: {}", work.title, message(work))
}

/// State, policy and, while it waits, why.
fn message(work: &Work) -> String {
    let policy = match work.policy {
        Some(Policy::Gang(min)) => format!(" (gang of {min})"),
        _ => String::new(),
    };
    format!("{}{policy}{}", work.state.word(), detail(work))
}

/// The same where there is little room.
fn short_message(work: &Work) -> String {
    format!("{}{}", work.state.word(), detail(work))
}

fn detail(work: &Work) -> String {
    let detail = match work.state {
        State::Failed => work.failure.clone(),
        State::Blocked | State::Waiting => wait_text(work),
        State::Placed | State::Running if work.obstacle.is_some() => work.obstacle.clone(),
        State::Placed | State::Running => {
            let (running, done) = (work.count(PodPhase::Running), work.count(PodPhase::Succeeded));
            Some(format!("{running} running, {done} done of {}", work.wanted))
        }
        State::Scheduled => work.schedule.clone(),
        State::Done | State::Suspended => None,
    };
    detail.map_or(String::new(), |detail| format!(": {detail}"))
}

/// Why it waits.
fn wait_text(work: &Work) -> Option<String> {
    let refusal = || work.refusal.as_ref().filter(|_| work.state == State::Waiting);
    work.obstacle.clone().or_else(|| refusal().map(|refusal| refusal.plain_message()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use api::views::{JobView, View};
    use console::strip_ansi_codes;

    use super::*;
    use crate::progress::{Seen, survey};

    fn jobs(count: usize) -> Vec<Work> {
        let job = |n: usize| {
            let name = if n == 0 { "t".to_owned() } else { format!("a-job-whose-name-is-rather-long-{n}") };
            let document = serde_json::json!({
                "metadata": {"name": name, "namespace": "default", "uid": name},
                "spec": {"parallelism": 64, "completions": 64 * n, "managedBy": "example.com/another-controller"},
            });
            Arc::new(JobView::decode(document.to_string().as_bytes()).unwrap())
        };
        survey(&Seen { jobs: (0..count).map(job).collect(), ..Seen::default() })
    }

    #[test]
    fn progress_fits_the_terminal() {
        for (columns, rows) in [(200, 20), (80, 20), (60, 5), (40, 20), (20, 3), (5, 1)] {
            for count in [0, 1, 3, 30] {
                let lines = lines(&jobs(count), columns, rows);
                assert!(lines.len() <= rows && lines.len() == count.min(rows), "{columns}x{rows}: {lines:#?}");
                let widest = lines.iter().map(|line| measure_text_width(line)).max().unwrap_or(0);
                assert!(widest < columns.max(COLUMNS_MIN + 1), "{columns}: {lines:#?}");
            }
        }
    }

    #[test]
    fn long_lines_break_between_words() {
        assert_eq!(folded("job/a: cannot finish: too large", 16), "job/a: cannot\n  finish: too\n  large");
        assert_eq!(folded("short", 80), "short");
        assert_eq!(folded("averyveryverylongword b", 10), "averyveryverylongword\n  b");
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
