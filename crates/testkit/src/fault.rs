//! Faults between a part and the API server, by rule.
//!
//! In: [`Rule`]s: which requests or which events of a watch, which occurrences of them, and what happens to those.
//! Out: a client that looks like any other and behaves as badly as the rules ask ([`Faults::wrap`]), or the same as a
//! proxy in front of a server that is another process ([`Proxy`]).
//! Promises: what happens follows from the rules and the order of the requests alone, so that one seed gives one history;
//! rules come and go while everything runs; every rule counts what it saw and what it did.
//! Never: changes a request on its way, or makes up an object; a fault is something that networks and servers do.
//!
//! ```
//! use std::time::Duration;
//! use testkit::fault::{EventFault, Fault, Faults, Refusal, Rule, events_of, writes};
//!
//! let faults = Faults::default();
//! // The third write of the Job controller happens, but nobody tells the controller.
//! faults.add(Rule::on(writes().by("job-controller"), Fault::CutAnswer).nth(3));
//! // One in ten binds meets a busy server.
//! let busy = Fault::Answer(Refusal::TooManyRequests { retry_after_seconds: 1 });
//! let binds = faults.add(Rule::on(writes().of("pods").at("binding"), busy).chance(100, 7));
//! // Nobody hears of pods for half a minute.
//! faults.add(Rule::on_events(events_of("pods"), EventFault::Delay(Duration::from_secs(30))).nth(1));
//! faults.remove(binds);
//! assert_eq!(faults.counts(binds).done, 0);
//! ```

mod rule; // what a test writes down
mod asked; // what a request asks for
mod decide; // rules and a request → what happens
mod refusal; // answers for the server
mod layer; // requests: does what was decided
mod events; // watches: the same for every event
mod proxy; // the same over HTTP

pub use asked::Asked;
pub use decide::{Counts, RuleId, Rules};
pub use layer::Faults;
pub use proxy::Proxy;
pub use refusal::Refusal;
pub use rule::{EventFault, Fault, Requests, Rule, events_of, requests, verb, writes};

pub use apiserver::request::Verb;
