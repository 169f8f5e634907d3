//! Draws progress: bars on a terminal, a line per change elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use api::views::PodPhase;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::progress::{Policy, State, Work};

/// More bars than this are folded into one line.
const BARS_MAX: usize = 20;

/// Draws on standard error.
pub enum View {
    /// A terminal: one bar for each piece of work.
    Bars(Bars),
    /// Not a terminal: one line for each change of state.
    Lines(BTreeMap<String, (State, Option<String>)>),
}

/// One bar for each piece of work.
pub struct Bars {
    all: MultiProgress,
    bars: BTreeMap<String, ProgressBar>,
    folded: Option<ProgressBar>,
}

impl View {
    /// Bars where standard error is a terminal.
    pub fn new() -> View {
        if std::io::stderr().is_terminal() {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            View::Bars(Bars { all, bars: BTreeMap::new(), folded: None })
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
                    let now = (work.state, refusal_text(work));
                    if seen.get(&work.title) != Some(&now) {
                        eprintln!("{}", line(work));
                        seen.insert(work.title.clone(), now);
                    }
                }
            }
        }
    }

    /// Leaves the last state on the screen.
    pub fn finish(&mut self) {
        if let View::Bars(bars) = self {
            bars.bars.values().chain(&bars.folded).for_each(ProgressBar::abandon);
        }
    }
}

impl Bars {
    fn show(&mut self, works: &[Work]) {
        for work in works.iter().take(BARS_MAX) {
            let all = &self.all;
            let bar = self.bars.entry(work.title.clone()).or_insert_with(|| all.add(new_bar()));
            bar.set_length(work.wanted as u64);
            bar.set_prefix(work.title.clone());
            let shown = match work.state {
                State::Waiting | State::Suspended => 0,
                State::Placed => work.occupying() + work.count(PodPhase::Succeeded),
                _ => work.count(PodPhase::Running) + work.count(PodPhase::Succeeded),
            };
            bar.set_position(shown.min(work.wanted) as u64);
            bar.set_message(message(work));
        }
        if works.len() > BARS_MAX {
            let rest = &works[BARS_MAX..];
            let settled = rest.iter().filter(|work| work.state.is_settled()).count();
            let all = &self.all;
            let folded = self.folded.get_or_insert_with(|| {
                let bar = all.add(ProgressBar::new(0));
                bar.set_style(style("{msg}"));
                bar
            });
            folded.set_message(format!("… and {} more, {settled} of them ended", rest.len()));
        }
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    bar.set_style(style("{prefix:24!} [{bar:30.green}] {pos:>5}/{len:<5} {wide_msg}").progress_chars("█▌░"));
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is a constant and well formed")
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
    let detail = match (work.state, &work.failure) {
        (State::Failed, Some(failure)) => format!(": {failure}"),
        (State::Waiting, _) => refusal_text(work).map_or(String::new(), |text| format!(": {text}")),
        (State::Placed | State::Running, _) => format!(
            ": {} running, {} done of {}",
            work.count(PodPhase::Running),
            work.count(PodPhase::Succeeded),
            work.wanted
        ),
        _ => String::new(),
    };
    format!("{}{policy}{detail}", work.state.word())
}

fn refusal_text(work: &Work) -> Option<String> {
    work.refusal.as_ref().filter(|_| work.state == State::Waiting).map(|refusal| refusal.plain_message())
}
