//! A request's body, lent to the server. When the server stops reading early because it refuses the request, the rest
//! of the body returns, and a bounded amount of it is read and discarded. Otherwise a client that is still sending when
//! the connection closes may never read the response.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

/// At most this much is read and discarded.
const MAX_DRAINED_BYTES: usize = 16 << 20;

/// A body that returns to its [`BodyLender`] when it is dropped.
pub(super) struct LentBody<B: Body> {
    body: Option<B>,
    back: Arc<Mutex<Option<B>>>,
}

/// Receives a lent body when it is dropped.
pub(super) struct BodyLender<B>(Arc<Mutex<Option<B>>>);

/// Lends `body`.
pub(super) fn lend<B: Body>(body: B) -> (LentBody<B>, BodyLender<B>) {
    let back = Arc::new(Mutex::new(None));
    (LentBody { body: Some(body), back: Arc::clone(&back) }, BodyLender(back))
}

impl<B: Body + Unpin> BodyLender<B> {
    /// Reads the rest of the body, up to a limit. Ends at once when there is none.
    pub async fn drain(self) {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut body) = left.filter(|body| !body.is_end_stream()) else { return };
        let mut bytes_read = 0;
        while bytes_read < MAX_DRAINED_BYTES
            && let Some(Ok(frame)) = body.frame().await
        {
            bytes_read += frame.data_ref().map_or(0, bytes::Buf::remaining);
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for LentBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl<B: Body> Drop for LentBody<B> {
    fn drop(&mut self) {
        *self.back.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
    }
}
