//! Rules as values: which requests, which occurrences of them, which fault.

use std::time::Duration;

use api::Random;
use apiserver::request::Verb;

use super::injected_status::InjectedStatus;
use super::observed_request::ObservedRequest;

/// A fault and when it applies. By default it applies to every occurrence.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// The requests that it matches.
    pub(super) requests: RequestMatcher,
    /// The occurrences that it applies to, counted from the moment when the rule is added.
    pub(super) occurrences: Occurrences,
    /// The fault.
    pub(super) effect: RuleEffect,
}

/// The fault of a rule, for requests or for events.
#[derive(Clone, Debug)]
pub(super) enum RuleEffect {
    /// A fault of requests.
    Request(Fault),
    /// A fault of single watch events; occurrences are events.
    Event(EventFault),
}

/// A fault of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault: it is only counted.
    Count,
    /// The server gets it this much later.
    Delay(Duration),
    /// The server gets it at once, and the caller gets the response this much later.
    DelayResponse(Duration),
    /// The connection breaks before the server gets it.
    Cut,
    /// The server applies it, and the connection breaks before the caller gets the response.
    CutResponse,
    /// The server never gets it, and the caller never gets a response: the connection stays open and is dead.
    BlackHole,
    /// The server applies it, and the caller never gets a response: the connection stays open and is dead.
    BlackHoleResponse,
    /// The server gets it twice, as from a proxy that retries. The caller gets the second response.
    Repeat,
    /// The server does not get it; this is the response.
    Respond(InjectedStatus),
    /// The server applies it; this is the response nevertheless.
    RespondAfter(InjectedStatus),
}

/// A fault of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFault {
    /// No fault: it is only counted.
    Count,
    /// The watch stalls for this long, then continues with this event.
    Delay(Duration),
    /// The watch breaks before this event.
    Cut,
    /// The watch ends with 410 instead of this event: the client must list again.
    Expire,
    /// It is delivered twice.
    Repeat,
    /// It is never delivered. A correct server does not do this. The client learns of the change with the object's next
    /// one, or with its next list.
    Drop,
    /// It is delivered after the next event, or after this long if there is none. Like [`EventFault::Drop`], a correct
    /// server does not do this.
    Postpone(Duration),
}

/// The occurrences that a rule applies to. The first one has number 1.
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
    /// The first n.
    First(u64),
    /// Each with this chance, drawn from the rule's own generator.
    Chance {
        /// How many of a thousand.
        per_mille: u64,
        /// The generator's seed.
        seed: u64,
    },
}

impl Occurrences {
    /// Whether the rule applies to occurrence number `nth`. Only `Chance` draws from `random`, once for each
    /// occurrence.
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
    /// `fault` applies to these requests.
    pub fn on(of: RequestMatcher, fault: Fault) -> FaultRule {
        FaultRule { requests: of, occurrences: Occurrences::All, effect: RuleEffect::Request(fault) }
    }

    /// `fault` applies to events of these watches. Namespace and name are those of the event's object.
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

/// Which requests a rule matches. Attributes that are not set match any value.
#[derive(Clone, Debug, Default)]
pub struct RequestMatcher {
    /// One of these; any when empty.
    verbs: Vec<Verb>,
    /// One of these; any when empty.
    users: Vec<String>,
    /// The store's name of it.
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

/// Writes.
pub fn writes() -> RequestMatcher {
    let verbs = vec![Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection];
    RequestMatcher { verbs, ..RequestMatcher::default() }
}

/// Watches of one resource, for rules about events.
pub fn events_of(resource: &str) -> RequestMatcher {
    verb(Verb::Watch).on_resource(resource)
}

impl RequestMatcher {
    /// Only those of this user, given in full or by the last segment: `job-controller` matches
    /// `system:serviceaccount:kube-system:job-controller` too. Repeated calls match any of the users.
    #[must_use]
    pub fn by_user(mut self, user: &str) -> RequestMatcher {
        self.users.push(user.to_owned());
        self
    }

    /// Only those on this resource and its subresources: `pods`, `batch/jobs`, `scheduling.k8s.io/podgroups`.
    #[must_use]
    pub fn on_resource(self, resource: &str) -> RequestMatcher {
        RequestMatcher { resource: Some(resource.to_owned()), ..self }
    }

    /// None of those on this resource: most tests exclude `events`. Repeated calls exclude every one.
    #[must_use]
    pub fn not_on_resource(mut self, resource: &str) -> RequestMatcher {
        self.not_resources.push(resource.to_owned());
        self
    }

    /// Only those on this subresource: `status`, `binding`. An empty string matches only requests without one.
    #[must_use]
    pub fn on_subresource(self, subresource: &str) -> RequestMatcher {
        RequestMatcher { subresource: Some(subresource.to_owned()), ..self }
    }

    /// Only those in this namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> RequestMatcher {
        RequestMatcher { namespace: Some(namespace.to_owned()), ..self }
    }

    /// Only those on the object of this name.
    #[must_use]
    pub fn named(self, name: &str) -> RequestMatcher {
        RequestMatcher { name: Some(name.to_owned()), ..self }
    }

    /// Whether `request` is one of them.
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
