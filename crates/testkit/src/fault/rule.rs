//! Rules as values: which requests, which occurrences of them, what happens.

use std::time::Duration;

use api::Random;
use apiserver::request::Verb;

use super::injected_status::InjectedStatus;
use super::observed_request::ObservedRequest;

/// Something that goes wrong, and when. Without a word about occurrences it goes wrong every time.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// What it is about.
    pub(super) requests: RequestMatcher,
    /// Which occurrences are hit, counted from the moment the rule is added.
    pub(super) occurrences: Occurrences,
    /// What happens to those.
    pub(super) effect: RuleEffect,
}

/// What a rule does, and to what.
#[derive(Clone, Debug)]
pub(super) enum RuleEffect {
    /// It hits requests.
    Request(Fault),
    /// It hits single events of watches, and counts those.
    Event(EventFault),
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is only counted.
    Count,
    /// The server sees it this much later.
    Delay(Duration),
    /// The server sees it at once, and the caller hears of it this much later.
    DelayResponse(Duration),
    /// The connection breaks before the server sees it.
    Cut,
    /// The server does it, and the connection breaks before the caller hears of it.
    CutResponse,
    /// The server never sees it, and the caller never hears anything: the connection stays open and is dead.
    BlackHole,
    /// The server does it, and the caller never hears anything: the connection stays open and is dead.
    BlackHoleResponse,
    /// The server sees it twice, as when something on the way tries again by itself. The caller hears the second answer.
    Repeat,
    /// The server does not see it; this is the answer.
    Respond(InjectedStatus),
    /// The server does it; this is the answer all the same.
    RespondAfter(InjectedStatus),
}

/// What happens to an event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFault {
    /// Nothing: it is only counted.
    Count,
    /// The watch stands still for this long, then goes on with this event.
    Delay(Duration),
    /// The watch breaks before this event.
    Cut,
    /// The watch ends with 410 instead of this event: the client has to list anew.
    Expire,
    /// It comes twice.
    Repeat,
    /// It never comes. No server that keeps its promises does this: a client that misses it learns of it with the
    /// object's next change, or when it lists anew.
    Drop,
    /// It comes after the event that follows it, or after this long when none does. Like [`EventFault::Drop`], nothing
    /// that a server may do.
    Postpone(Duration),
}

/// Which of the requests that a rule is about are hit. The first one has number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occurrences {
    /// All of them.
    All,
    /// This one.
    Nth(u64),
    /// This one and all after it.
    From(u64),
    /// Every n-th.
    EveryNth(u64),
    /// So many from the first on.
    First(u64),
    /// Each with this chance, drawn from a generator of the rule's own.
    Chance {
        /// How many of a thousand.
        per_mille: u64,
        /// Which draws.
        seed: u64,
    },
}

impl Occurrences {
    /// Whether occurrence number `nth` is hit. Draws from `random` once for each occurrence, if at all.
    pub(super) fn includes(self, nth: u64, random: &Random) -> bool {
        match self {
            Occurrences::All => true,
            Occurrences::Nth(n) => nth == n,
            Occurrences::From(n) => nth >= n,
            Occurrences::EveryNth(n) => n > 0 && nth.is_multiple_of(n),
            Occurrences::First(n) => nth <= n,
            Occurrences::Chance { per_mille, .. } => random.below(1000) < per_mille,
        }
    }

    pub(super) fn generator(self) -> Random {
        match self {
            Occurrences::Chance { seed, .. } => Random::seeded(seed),
            _ => Random::seeded(0),
        }
    }
}

impl FaultRule {
    /// `fault` happens to these requests.
    pub fn on(of: RequestMatcher, fault: Fault) -> FaultRule {
        FaultRule { requests: of, occurrences: Occurrences::All, effect: RuleEffect::Request(fault) }
    }

    /// `fault` happens to events of these watches. Namespace and name are those of the object an event is about.
    pub fn on_events(of: RequestMatcher, fault: EventFault) -> FaultRule {
        FaultRule { requests: of, occurrences: Occurrences::All, effect: RuleEffect::Event(fault) }
    }

    /// Only the `n`-th time.
    #[must_use]
    pub fn nth(self, n: u64) -> FaultRule {
        FaultRule { occurrences: Occurrences::Nth(n), ..self }
    }

    /// The `n`-th time and every time after it.
    #[must_use]
    pub fn starting_at_nth(self, n: u64) -> FaultRule {
        FaultRule { occurrences: Occurrences::From(n), ..self }
    }

    /// Every `n`-th time.
    #[must_use]
    pub fn every_nth(self, n: u64) -> FaultRule {
        FaultRule { occurrences: Occurrences::EveryNth(n), ..self }
    }

    /// Only the first `n` times.
    #[must_use]
    pub fn first_n(self, n: u64) -> FaultRule {
        FaultRule { occurrences: Occurrences::First(n), ..self }
    }

    /// Each time with a chance of `per_mille` in a thousand, drawn from `seed`.
    #[must_use]
    pub fn with_chance(self, per_mille: u64, seed: u64) -> FaultRule {
        FaultRule { occurrences: Occurrences::Chance { per_mille, seed }, ..self }
    }
}

/// Which requests a rule is about. What is not said does not matter.
#[derive(Clone, Debug, Default)]
pub struct RequestMatcher {
    /// One of these; any when empty.
    verbs: Vec<Verb>,
    /// One of these; any when empty.
    users: Vec<String>,
    /// As the store names it.
    resource: Option<String>,
    /// None of these.
    not_resources: Vec<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

/// All requests.
pub fn all_requests() -> RequestMatcher {
    RequestMatcher::default()
}

/// Requests of one verb.
pub fn verb(verb: Verb) -> RequestMatcher {
    RequestMatcher { verbs: vec![verb], ..RequestMatcher::default() }
}

/// Requests that change something.
pub fn writes() -> RequestMatcher {
    let verbs = vec![Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection];
    RequestMatcher { verbs, ..RequestMatcher::default() }
}

/// Watches of one resource, for rules about events.
pub fn events_of(resource: &str) -> RequestMatcher {
    verb(Verb::Watch).on_resource(resource)
}

impl RequestMatcher {
    /// Only those of this user, given whole or by its last part: `job-controller` is
    /// `system:serviceaccount:kube-system:job-controller` too. Said again, those of either.
    #[must_use]
    pub fn by_user(mut self, user: &str) -> RequestMatcher {
        self.users.push(user.to_owned());
        self
    }

    /// Only those about this resource and its subresources: `pods`, `batch/jobs`, `scheduling.k8s.io/podgroups`.
    #[must_use]
    pub fn on_resource(self, resource: &str) -> RequestMatcher {
        RequestMatcher { resource: Some(resource.to_owned()), ..self }
    }

    /// None of those about this resource: most tests leave `events` alone. Said again, of neither.
    #[must_use]
    pub fn not_on_resource(mut self, resource: &str) -> RequestMatcher {
        self.not_resources.push(resource.to_owned());
        self
    }

    /// Only those at this subresource: `status`, `binding`. With an empty text, only those at none.
    #[must_use]
    pub fn on_subresource(self, subresource: &str) -> RequestMatcher {
        RequestMatcher { subresource: Some(subresource.to_owned()), ..self }
    }

    /// Only those in this namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> RequestMatcher {
        RequestMatcher { namespace: Some(namespace.to_owned()), ..self }
    }

    /// Only those about the object of this name.
    #[must_use]
    pub fn named(self, name: &str) -> RequestMatcher {
        RequestMatcher { name: Some(name.to_owned()), ..self }
    }

    /// Whether `asked` is one of them.
    pub fn matches(&self, request: &ObservedRequest) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        let user_is = |wanted: &String| {
            let rest = request.user.strip_suffix(wanted.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(':'))
        };
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && (self.users.is_empty() || self.users.iter().any(user_is))
            && is(&self.resource, &request.resource)
            && !self.not_resources.contains(&request.resource)
            && is(&self.subresource, &request.subresource)
            && is(&self.namespace, &request.namespace)
            && is(&self.name, &request.name)
    }
}
