//! Keeps objects, gives every write its revision, and remembers enough history for lists and watches to be exact.
//!
//! In: batches of writes, each with what it expects to find (`Store::commit`).
//! Out: objects by key, lists at one revision, watches from one revision, or [`Gone`] when history no longer reaches.
//! Promises: a write is refused or takes the next revision, and a write that changes nothing keeps its revision. A list
//! shows one revision. A watch is ordered and complete, without duplicates. What a backend did not keep is not shown.
//! With a [`Disk`], what was answered outlives the process and the power.
//! Never: HTTP, knowing a kind, reading a clock, spawning a task (one thread, when asked for).

pub mod object; // what is kept: key, bytes, what selectors read
mod fields; // what field selectors read, packed
mod packing; // documents that have come to rest, in less room
pub mod commit; // a batch of writes becomes records, or refusals; read this first
mod state; // every key's versions, every resource's log
mod history; // how far back the log reaches, and who holds it
pub mod list; // reads at one revision, without keeping writers waiting
pub mod watch; // cursors into the log
pub mod backend; // the seam to the disk
pub mod disk; // the same on disk
mod store; // ties the above together behind one handle
pub mod committer; // how writes reach it: in place, or through one thread for everybody
mod check; // looks through a data directory without changing it

pub use backend::{Backend, BackendError, FreeSpace, LogRecord};
pub use check::{StoreSummary, check};
pub use commit::{ObjectWrite, Precondition, WriteRefusal};
pub use committer::{Committer, WriterThread};
pub use disk::{Disk, DiskOptions, OpenError};
pub use fields::SelectableFields;
pub use history::HistoryLimits;
pub use list::{CompactedError, ListPage, ListQuery};
pub use object::{Document, Op, StoreKey, StoredMeta, StoredObject};
pub use store::Store;
pub use watch::{StoreEvent, Watcher};
