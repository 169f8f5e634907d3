//! The network edge on its own runtime, so that handshakes and slow clients never delay a control loop.

use std::net::TcpListener;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use apiserver::ApiServer;
use apiserver::edge::{self, Config};
use futures::FutureExt;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// TLS is most of the work of the edge, and two threads serve more requests than one writer commits.
const MAX_WORKERS: usize = 2;
/// How long the remaining tasks of the runtime may take to end after the edge has stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The running edge.
pub(crate) struct EdgeThread {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
    thread: JoinHandle<()>,
}

impl EdgeThread {
    /// Serves `listener`, which must not block, until [`EdgeThread::stop`].
    pub fn start(listener: TcpListener, server: ApiServer, config: Config) -> std::io::Result<EdgeThread> {
        let workers = thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_WORKERS));
        let runtime =
            Builder::new_multi_thread().worker_threads(workers).thread_name("edge-worker").enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let (ends, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("edge".to_owned()).spawn(move || {
            run(runtime, listener, server, config, stopped);
            // The sender is also dropped when the thread panics.
            drop(ends);
        })?;
        Ok(EdgeThread { stop, ended, thread })
    }

    /// Whether it ended by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops accepting, and returns when the requests in flight have ended.
    pub async fn stop(self) {
        // An error means that it has ended already.
        let _ = self.stop.send(());
        // The caller's runtime continues meanwhile: requests in flight may wait for tasks on it.
        let _ = self.ended.await;
        if self.thread.join().is_err() {
            tracing::error!("the network edge panicked");
        }
    }
}

fn run(runtime: Runtime, listener: TcpListener, server: ApiServer, config: Config, stopped: oneshot::Receiver<()>) {
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        // A dropped sender also means stop.
        let stop = async { drop(stopped.await) }.boxed();
        edge::serve(listener, server, config, stop).await.map_err(std::io::Error::other)
    });
    if let Err(error) = served {
        tracing::error!("the network edge ended: {error}");
    }
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
}
