//! Stores objects, gives every write its revision, and keeps enough history for exact lists and watches.
//!
//! In: batches of writes, each with a precondition (`Store::commit`).
//! Out: objects by key, lists at one revision, watches from one revision, or [`CompactedError`] when the history no
//! longer reaches back that far.
//! Promises: a write is refused or takes the next revision; a write that changes nothing keeps its revision. A list
//! shows one revision. A watch is ordered and complete, without duplicates. A write that the backend did not store is
//! never visible. With a [`Disk`], an acknowledged write survives a crash and a power failure.
//! Never: HTTP, knowledge of kinds, a clock, a task (and one thread only on request).

pub mod object; // what is stored: key, bytes, selectable values
mod fields; // the values of field selectors, packed
mod packing; // compression of documents that no longer change
pub mod commit; // a batch of writes becomes records or refusals; read this first
mod state; // the versions of every key and the log of every resource
mod history; // how far back the log reaches, and what pins it
pub mod list; // reads at one revision, without blocking writers
pub mod watch; // cursors into the log
pub mod backend; // the interface to the disk
pub mod disk; // the backend on disk
mod store; // the handle that ties these together
pub mod committer; // how writes reach the store: in place, or through one writer thread
mod check; // checks a data directory without changing it

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
