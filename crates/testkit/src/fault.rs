//! Faults between a component and the API server, by rule.
//!
//! In: [`FaultRule`]s: which requests or watch events, which occurrences of them, and which fault.
//! Out: a client with these faults ([`Faults::wrap`]), or a proxy with them in front of a server in another process
//! ([`Proxy`]).
//! Promises: faults depend only on the rules and the order of the requests, so one seed gives one history. Rules can be
//! added and removed at any time. Every rule counts the requests that it matched and those that it was applied to.
//! Never: changes a request or invents an object. A fault is something that networks and servers do.
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
//! let of = writes().on_resource("pods").on_subresource("binding");
//! let binds = faults.add(FaultRule::on(of, busy).with_chance(100, 7));
//! // All watches of pods stall for 30 seconds.
//! faults.add(FaultRule::on_events(events_of("pods"), EventFault::Delay(Duration::from_secs(30))).nth(1));
//! faults.remove(binds);
//! assert_eq!(faults.counts(binds).applied, 0);
//! ```

mod rule; // the rules that a test writes
mod observed_request; // the attributes of a request that rules match
mod decide; // rules and a request → a fault
mod injected_status; // error responses in place of the server's
mod declared_rights; // requests that a control loop does not declare
mod layer; // applies faults to requests
mod events; // applies faults to watch events
mod proxy; // the same over HTTP

pub use decide::{FaultRules, RuleCounts, RuleId};
pub use injected_status::InjectedStatus;
pub use layer::Faults;
pub use observed_request::ObservedRequest;
pub use proxy::Proxy;
pub use rule::{EventFault, Fault, FaultRule, RequestMatcher, all_requests, events_of, verb, writes};

pub use apiserver::request::Verb;
