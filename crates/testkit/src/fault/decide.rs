//! The decision: rules and a request in, a fault out.

use api::Random;

use super::observed_request::ObservedRequest;
use super::rule::{EventFault, Fault, FaultRule, RuleEffect};

/// Identifies a rule that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId(usize);

/// How often a rule was matched and applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Requests (or events) that it matches.
    pub matched: u64,
    /// Those that it was applied to.
    pub applied: u64,
}

/// Rules in the order in which they were added, with their counts.
#[derive(Debug, Default)]
pub struct FaultRules(Vec<RuleEntry>);

#[derive(Debug)]
struct RuleEntry {
    rule: FaultRule,
    counts: RuleCounts,
    /// For rules with a chance.
    random: Random,
    /// Removed rules keep their position and their counts.
    removed: bool,
}

impl FaultRules {
    /// Adds a rule after the existing ones.
    pub fn add(&mut self, rule: FaultRule) -> RuleId {
        let random = rule.occurrences.generator();
        self.0.push(RuleEntry { rule, counts: RuleCounts::default(), random, removed: false });
        RuleId(self.0.len() - 1)
    }

    /// From now on the rule is not applied and does not count.
    pub fn remove(&mut self, id: RuleId) {
        self.0[id.0].removed = true;
    }

    /// Removes every rule.
    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(|entry| entry.removed = true);
    }

    /// How often the rule was matched and applied.
    pub fn counts(&self, id: RuleId) -> RuleCounts {
        self.0[id.0].counts
    }

    /// The fault for a request. Every rule that matches counts it; of those that are due, the one added first applies.
    pub fn decide(&mut self, request: &ObservedRequest) -> Fault {
        let fault_of = |effect: &RuleEffect| match effect {
            RuleEffect::Request(fault) => Some(fault.clone()),
            RuleEffect::Event(_) => None,
        };
        self.first_due(request, fault_of, Fault::Count)
    }

    /// The fault for a watch event. `request` is the watch with namespace and name of the event's object.
    pub fn decide_event(&mut self, request: &ObservedRequest) -> EventFault {
        let fault_of = |effect: &RuleEffect| match effect {
            RuleEffect::Event(fault) => Some(*fault),
            RuleEffect::Request(_) => None,
        };
        self.first_due(request, fault_of, EventFault::Count)
    }

    fn first_due<F: PartialEq>(
        &mut self,
        request: &ObservedRequest,
        fault_of: impl Fn(&RuleEffect) -> Option<F>,
        count: F,
    ) -> F {
        let mut chosen = None;
        for entry in self.0.iter_mut().filter(|entry| !entry.removed && entry.rule.requests.matches(request)) {
            let Some(fault) = fault_of(&entry.rule.effect) else { continue };
            entry.counts.matched += 1;
            let is_due = entry.rule.occurrences.includes(entry.counts.matched, &entry.random);
            // `Count` rules always apply and do not prevent other rules.
            if is_due && (fault == count || chosen.is_none()) {
                entry.counts.applied += 1;
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
    use crate::fault::rule::{RequestMatcher, all_requests, events_of, verb, writes};
    use crate::fault::{InjectedStatus, Verb};

    const SCHEDULER: &str = "system:kube-scheduler";

    fn observed_request(user: &str, method: &str, uri: &str) -> ObservedRequest {
        ObservedRequest::read(user, &method.parse::<Method>().unwrap(), &uri.parse::<Uri>().unwrap(), b"").unwrap()
    }

    fn bind() -> ObservedRequest {
        observed_request(SCHEDULER, "POST", "/api/v1/namespaces/ns/pods/p/binding")
    }

    /// `x` where the rule applies, `.` where not.
    fn hits(rule: FaultRule, times: usize) -> String {
        let mut rules = FaultRules::default();
        rules.add(rule);
        (0..times).map(|_| if rules.decide(&bind()) == Fault::Count { '.' } else { 'x' }).collect()
    }

    #[test]
    fn a_rule_matches_only_the_requests_it_selects() {
        for (case, of, want) in [
            ("all requests", all_requests(), true),
            ("writes", writes(), true),
            ("the verb", verb(Verb::Create), true),
            ("another verb", verb(Verb::Update), false),
            ("the user", all_requests().by_user(SCHEDULER), true),
            ("the last segment of the user", all_requests().by_user("kube-scheduler"), true),
            ("a suffix of the user that is not a segment", all_requests().by_user("scheduler"), false),
            ("another user", all_requests().by_user("system:phalanx"), false),
            ("either of two users", all_requests().by_user("system:phalanx").by_user("kube-scheduler"), true),
            ("the resource", all_requests().on_resource("pods"), true),
            ("another resource", all_requests().on_resource("batch/jobs"), false),
            ("all but another resource", all_requests().not_on_resource("events"), true),
            ("all but this resource", all_requests().not_on_resource("pods"), false),
            (
                "all but this resource and another",
                all_requests().not_on_resource("events").not_on_resource("pods"),
                false,
            ),
            ("the subresource", all_requests().on_subresource("binding"), true),
            ("another subresource", all_requests().on_subresource("status"), false),
            ("no subresource", all_requests().on_subresource(""), false),
            ("the namespace", all_requests().in_namespace("ns"), true),
            ("another namespace", all_requests().in_namespace("default"), false),
            ("the name", all_requests().named("p"), true),
            ("another name", all_requests().named("q"), false),
            (
                "every attribute",
                verb(Verb::Create)
                    .on_resource("pods")
                    .on_subresource("binding")
                    .in_namespace("ns")
                    .named("p")
                    .by_user(SCHEDULER),
                true,
            ),
        ] {
            let of: RequestMatcher = of;
            assert_eq!(of.matches(&bind()), want, "{case}");
        }
    }

    #[test]
    fn occurrences_are_counted_from_one() {
        let rule = || FaultRule::on(all_requests(), Fault::Cut);
        for (case, rule, want) in [
            ("always", rule(), "xxxxxxxx"),
            ("the third", rule().nth(3), "..x....."),
            ("from the third", rule().starting_at_nth(3), "..xxxxxx"),
            ("every third", rule().every_nth(3), "..x..x.."),
            ("the first three", rule().first_n(3), "xxx....."),
            ("never", rule().with_chance(0, 1), "........"),
            ("certain", rule().with_chance(1000, 1), "xxxxxxxx"),
        ] {
            assert_eq!(hits(rule, 8), want, "{case}");
        }
    }

    #[test]
    fn the_same_seed_hits_the_same_occurrences() {
        let hits_of = |seed| hits(FaultRule::on(all_requests(), Fault::Cut).with_chance(300, seed), 1000);
        assert_eq!(hits_of(1), hits_of(1));
        assert_ne!(hits_of(1), hits_of(2));
        let hit = hits_of(1).matches('x').count();
        assert!((250..350).contains(&hit), "{hit} of 1000 at 300 per mille");
    }

    #[test]
    fn the_first_due_rule_is_applied_and_all_rules_count() {
        let mut rules = FaultRules::default();
        let counting = rules.add(FaultRule::on(all_requests(), Fault::Count));
        let second = rules.add(FaultRule::on(writes(), Fault::Cut).nth(2));
        let all =
            rules.add(FaultRule::on(all_requests().on_resource("pods"), Fault::Respond(InjectedStatus::Conflict)));
        let other = rules.add(FaultRule::on(all_requests().on_resource("nodes"), Fault::Cut));
        let decided: Vec<Fault> = (0..3).map(|_| rules.decide(&bind())).collect();
        assert_eq!(
            decided,
            [Fault::Respond(InjectedStatus::Conflict), Fault::Cut, Fault::Respond(InjectedStatus::Conflict)]
        );
        let counts = [counting, second, all, other].map(|id| (rules.counts(id).matched, rules.counts(id).applied));
        assert_eq!(counts, [(3, 3), (3, 1), (3, 2), (0, 0)]);
    }

    #[test]
    fn a_removed_rule_is_not_applied_and_does_not_count() {
        let mut rules = FaultRules::default();
        let cut = rules.add(FaultRule::on(all_requests(), Fault::Cut));
        assert_eq!(rules.decide(&bind()), Fault::Cut);
        rules.remove(cut);
        assert_eq!(rules.decide(&bind()), Fault::Count);
        assert_eq!(rules.counts(cut), RuleCounts { matched: 1, applied: 1 });
        rules.add(FaultRule::on(all_requests(), Fault::Cut));
        rules.clear();
        assert_eq!(rules.decide(&bind()), Fault::Count);
    }

    #[test]
    fn event_rules_ignore_requests_and_request_rules_ignore_events() {
        let mut rules = FaultRules::default();
        let watch = observed_request("u", "GET", "/api/v1/pods?watch=true");
        let stall = EventFault::Delay(Duration::from_secs(30));
        rules.add(FaultRule::on_events(events_of("pods"), stall));
        assert_eq!((rules.decide(&watch), rules.decide_event(&watch)), (Fault::Count, stall));
        rules.clear();
        rules.add(FaultRule::on(events_of("pods"), Fault::Cut));
        assert_eq!((rules.decide(&watch), rules.decide_event(&watch)), (Fault::Cut, EventFault::Count));
    }
}
