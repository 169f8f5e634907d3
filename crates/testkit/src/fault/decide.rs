//! The decision: rules and a request in, what happens out.

use api::Random;

use super::asked::Asked;
use super::rule::{Does, EventFault, Fault, Rule};

/// Names a rule that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId(usize);

/// What a rule has seen and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests (or events) that it is about.
    pub seen: u64,
    /// Those among them that it was done to.
    pub done: u64,
}

/// Rules in the order they were added, with what each has counted.
#[derive(Debug, Default)]
pub struct Rules(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    rule: Rule,
    counts: Counts,
    /// For rules by chance.
    random: Random,
    /// Removed rules keep their place and their counts.
    removed: bool,
}

impl Rules {
    /// Adds a rule, behind those there are.
    pub fn add(&mut self, rule: Rule) -> RuleId {
        let random = rule.when.generator();
        self.0.push(Entry { rule, counts: Counts::default(), random, removed: false });
        RuleId(self.0.len() - 1)
    }

    /// The rule does nothing and counts nothing from now on.
    pub fn remove(&mut self, id: RuleId) {
        self.0[id.0].removed = true;
    }

    /// Removes every rule.
    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(|entry| entry.removed = true);
    }

    /// What the rule has seen and done.
    pub fn counts(&self, id: RuleId) -> Counts {
        self.0[id.0].counts
    }

    /// What happens to a request. Every rule that it concerns counts it; of those whose turn it is, the first that was
    /// added is done.
    pub fn decide(&mut self, asked: &Asked) -> Fault {
        let fault_of = |does: &Does| match does {
            Does::Request(fault) => Some(fault.clone()),
            Does::Event(_) => None,
        };
        self.first(asked, fault_of, Fault::Count)
    }

    /// What happens to an event of a watch; `asked` is the watch, with namespace and name of the event's object.
    pub fn decide_event(&mut self, asked: &Asked) -> EventFault {
        let fault_of = |does: &Does| match does {
            Does::Event(fault) => Some(*fault),
            Does::Request(_) => None,
        };
        self.first(asked, fault_of, EventFault::Count)
    }

    fn first<F: PartialEq>(&mut self, asked: &Asked, fault_of: impl Fn(&Does) -> Option<F>, count: F) -> F {
        let mut chosen = None;
        for entry in self.0.iter_mut().filter(|entry| !entry.removed && entry.rule.of.include(asked)) {
            let Some(fault) = fault_of(&entry.rule.does) else { continue };
            entry.counts.seen += 1;
            let is_turn = entry.rule.when.include(entry.counts.seen, &entry.random);
            // To count takes nobody's turn.
            if is_turn && (fault == count || chosen.is_none()) {
                entry.counts.done += 1;
                chosen = chosen.or(Some(fault).filter(|fault| *fault != count));
            }
        }
        chosen.unwrap_or(count)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use http::{Method, Uri};

    use super::*;
    use crate::fault::rule::{Requests, events_of, requests, verb, writes};
    use crate::fault::{Refusal, Verb};

    const SCHEDULER: &str = "system:kube-scheduler";

    fn asked(user: &str, method: &str, uri: &str) -> Asked {
        Asked::read(user, &method.parse::<Method>().unwrap(), &uri.parse::<Uri>().unwrap(), b"").unwrap()
    }

    fn bind() -> Asked {
        asked(SCHEDULER, "POST", "/api/v1/namespaces/ns/pods/p/binding")
    }

    /// `x` where the rule is done, `.` where not.
    fn hits(rule: Rule, times: usize) -> String {
        let mut rules = Rules::default();
        rules.add(rule);
        (0..times).map(|_| if rules.decide(&bind()) == Fault::Count { '.' } else { 'x' }).collect()
    }

    #[test]
    fn a_rule_is_about_the_requests_it_names_and_no_others() {
        for (case, of, want) in [
            ("everything", requests(), true),
            ("writes", writes(), true),
            ("the verb", verb(Verb::Create), true),
            ("another verb", verb(Verb::Update), false),
            ("the user", requests().by(SCHEDULER), true),
            ("the user's last part", requests().by("kube-scheduler"), true),
            ("a tail of the user that is no part", requests().by("scheduler"), false),
            ("another user", requests().by("system:phalanx"), false),
            ("either of two users", requests().by("system:phalanx").by("kube-scheduler"), true),
            ("the resource", requests().of("pods"), true),
            ("another resource", requests().of("batch/jobs"), false),
            ("all but another resource", requests().not_of("events"), true),
            ("all but this resource", requests().not_of("pods"), false),
            ("all but this resource and another", requests().not_of("events").not_of("pods"), false),
            ("the subresource", requests().at("binding"), true),
            ("another subresource", requests().at("status"), false),
            ("no subresource", requests().at(""), false),
            ("the namespace", requests().within("ns"), true),
            ("another namespace", requests().within("default"), false),
            ("the name", requests().named("p"), true),
            ("another name", requests().named("q"), false),
            ("all of it", verb(Verb::Create).of("pods").at("binding").within("ns").named("p").by(SCHEDULER), true),
        ] {
            let of: Requests = of;
            assert_eq!(of.include(&bind()), want, "{case}");
        }
    }

    #[test]
    fn occurrences_are_counted_from_one() {
        let rule = || Rule::on(requests(), Fault::Cut);
        for (case, rule, want) in [
            ("always", rule(), "xxxxxxxx"),
            ("the third", rule().nth(3), "..x....."),
            ("from the third", rule().from(3), "..xxxxxx"),
            ("every third", rule().every(3), "..x..x.."),
            ("the first three", rule().first(3), "xxx....."),
            ("never", rule().chance(0, 1), "........"),
            ("surely", rule().chance(1000, 1), "xxxxxxxx"),
        ] {
            assert_eq!(hits(rule, 8), want, "{case}");
        }
    }

    #[test]
    fn chance_follows_from_its_seed() {
        let drawn = |seed| hits(Rule::on(requests(), Fault::Cut).chance(300, seed), 1000);
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let hit = drawn(1).matches('x').count();
        assert!((250..350).contains(&hit), "{hit} of 1000 at 300 per mille");
    }

    #[test]
    fn the_first_rule_whose_turn_it_is_is_done_and_all_count() {
        let mut rules = Rules::default();
        let counting = rules.add(Rule::on(requests(), Fault::Count));
        let second = rules.add(Rule::on(writes(), Fault::Cut).nth(2));
        let all = rules.add(Rule::on(requests().of("pods"), Fault::Answer(Refusal::Conflict)));
        let other = rules.add(Rule::on(requests().of("nodes"), Fault::Cut));
        let happened: Vec<Fault> = (0..3).map(|_| rules.decide(&bind())).collect();
        assert_eq!(happened, [Fault::Answer(Refusal::Conflict), Fault::Cut, Fault::Answer(Refusal::Conflict)]);
        let counts = [counting, second, all, other].map(|id| (rules.counts(id).seen, rules.counts(id).done));
        assert_eq!(counts, [(3, 3), (3, 1), (3, 2), (0, 0)]);
    }

    #[test]
    fn a_removed_rule_does_and_counts_nothing_more() {
        let mut rules = Rules::default();
        let cut = rules.add(Rule::on(requests(), Fault::Cut));
        assert_eq!(rules.decide(&bind()), Fault::Cut);
        rules.remove(cut);
        assert_eq!(rules.decide(&bind()), Fault::Count);
        assert_eq!(rules.counts(cut), Counts { seen: 1, done: 1 });
        rules.add(Rule::on(requests(), Fault::Cut));
        rules.clear();
        assert_eq!(rules.decide(&bind()), Fault::Count);
    }

    #[test]
    fn rules_about_events_leave_requests_alone_and_the_other_way_round() {
        let mut rules = Rules::default();
        let watch = asked("u", "GET", "/api/v1/pods?watch=true");
        let freeze = EventFault::Delay(Duration::from_secs(30));
        rules.add(Rule::on_events(events_of("pods"), freeze));
        assert_eq!((rules.decide(&watch), rules.decide_event(&watch)), (Fault::Count, freeze));
        rules.clear();
        rules.add(Rule::on(events_of("pods"), Fault::Cut));
        assert_eq!((rules.decide(&watch), rules.decide_event(&watch)), (Fault::Cut, EventFault::Count));
    }
}
