//! Responses of a server whose data directory is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::Revision;
use http::StatusCode;
use store::{Backend, BackendError, FreeSpace, HistoryLimits, LogRecord, Store, StoreKey, StoredObject};

use crate::test_server::{PODS, pod_document, server_on, test_server_on};

/// Stores nothing, and reports free space or none.
struct FullBackend(Arc<AtomicBool>);

impl Backend for FullBackend {
    fn scan(&mut self, _: &mut dyn FnMut(LogRecord) -> Option<Arc<StoredObject>>) -> Result<Revision, BackendError> {
        Ok(Revision::ZERO)
    }

    fn free_space(&mut self) -> Result<FreeSpace, BackendError> {
        let free_bytes = if self.0.load(Ordering::Relaxed) { 3 << 20 } else { u64::MAX };
        Ok(FreeSpace { free_bytes, reserve_bytes: 64 << 20 })
    }

    fn commit(&mut self, _: &[LogRecord], _: &dyn Fn(&StoreKey, Revision) -> bool) -> Result<(), BackendError> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_creates_but_not_reads_and_deletes() {
    let full = Arc::new(AtomicBool::new(false));
    let server =
        test_server_on(Store::open(Box::new(FullBackend(Arc::clone(&full))), HistoryLimits::default()).unwrap(), 1);
    assert_eq!(server.post(PODS, pod_document("a")).await.0, StatusCode::CREATED);

    full.store(true, Ordering::Relaxed);
    let (code, status) = server.post(PODS, pod_document("b")).await;
    assert_eq!((code, &status["reason"]), (StatusCode::INSUFFICIENT_STORAGE, &"InsufficientStorage".into()));
    let text = "the data directory is full: 3 MiB free, 64 MiB are reserved; delete objects or free space";
    assert_eq!(status["message"], text);
    let path = format!("{PODS}/a");
    assert_eq!(server.get(&path).await.0, StatusCode::OK);
    assert_eq!(server.call("DELETE", &path, "", "").await.0, StatusCode::OK);

    full.store(false, Ordering::Relaxed);
    assert_eq!(server.post(PODS, pod_document("b")).await.0, StatusCode::CREATED);
}

/// Has free space, but every commit fails.
struct BrokenBackend;

impl Backend for BrokenBackend {
    fn scan(&mut self, _: &mut dyn FnMut(LogRecord) -> Option<Arc<StoredObject>>) -> Result<Revision, BackendError> {
        Ok(Revision::ZERO)
    }

    fn commit(&mut self, _: &[LogRecord], _: &dyn Fn(&StoreKey, Revision) -> bool) -> Result<(), BackendError> {
        Err(BackendError::fatal(std::io::Error::other("no space left on device")))
    }
}

#[test]
fn a_server_whose_first_writes_fail_reports_the_cause() {
    let full = FullBackend(Arc::new(AtomicBool::new(true)));
    let text = "namespaces default cannot be created: the data directory is full: 3 MiB free, 64 MiB are reserved; \
                delete objects or free space";
    let broken =
        "namespaces default cannot be created: the store failed: the store's backend failed: no space left on device";
    let backends: [(Box<dyn Backend>, _, _); 2] =
        [(Box::new(full), text, true), (Box::new(BrokenBackend), broken, false)];
    for (backend, text, is_full) in backends {
        let store = Store::open(backend, HistoryLimits::default()).unwrap();
        let error = server_on(&store, 1).err().unwrap();
        assert_eq!((error.to_string().as_str(), error.is_full()), (text, is_full));
    }
}
