//! Faults between a part and the API server, by rule.
//!
//! In: [`FaultRule`]s: which requests or which events of a watch, which occurrences of them, and what happens to those.
//! Out: a client that looks like any other and behaves as badly as the rules ask ([`Faults::wrap`]), or the same as a
//! proxy in front of a server that is another process ([`Proxy`]).
//! Promises: what happens follows from the rules and the order of the requests alone, so that one seed gives one history;
//! rules come and go while everything runs; every rule counts what it saw and what it did.
//! Never: changes a request on its way, or makes up an object; a fault is something that networks and servers do.
//!
//! ```
//! use std::time::Duration;
//! use testkit::fault::{EventFault, Fault, FaultRule, Faults, InjectedStatus, events_of, writes};
//!
//! let faults = Faults::default();
//! // The third write of the Job controller is applied, but the controller gets no response.
//! faults.add(FaultRule::on(writes().by_user("job-controller"), Fault::CutResponse).nth(3));
//! // One in ten binds gets 429.
//! let busy = Fault::Respond(InjectedStatus::TooManyRequests { retry_after_seconds: 1 });
//! let binds = faults.add(FaultRule::on(writes().on_resource("pods").on_subresource("binding"), busy).with_chance(100, 7));
//! // All watches of pods stall for 30 seconds.
//! faults.add(FaultRule::on_events(events_of("pods"), EventFault::Delay(Duration::from_secs(30))).nth(1));
//! faults.remove(binds);
//! assert_eq!(faults.counts(binds).applied, 0);
//! ```

mod rule; // what a test writes down
mod observed_request; // what a request asks for
mod decide; // rules and a request → what happens
mod injected_status; // answers for the server
mod declared_rights; // requests that a control loop does not declare
mod layer; // requests: does what was decided
mod events; // watches: the same for every event
mod proxy; // the same over HTTP

pub use decide::{FaultRules, RuleCounts, RuleId};
pub use injected_status::InjectedStatus;
pub use layer::Faults;
pub use observed_request::ObservedRequest;
pub use proxy::Proxy;
pub use rule::{EventFault, Fault, FaultRule, RequestMatcher, all_requests, events_of, verb, writes};

pub use apiserver::request::Verb;
