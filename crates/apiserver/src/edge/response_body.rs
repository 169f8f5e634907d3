//! The body of a response, sent to the client: reports unread data to the connection, and ends watches when the edge
//! stops.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::watch;

use crate::edge::activity::RequestGuard;
use crate::edge::in_flight::InFlightPermit;
use crate::response::body::Body;

/// Frames are sent in pieces of this size. HTTP/2 accepts a whole frame before it checks the flow-control window, so a
/// large frame would look read when it is not.
const MAX_PIECE_BYTES: usize = 64 << 10;

/// The body of a response.
pub(super) struct ResponseBody {
    body: Body,
    request_guard: RequestGuard,
    /// Held until the response is complete.
    _permit: Option<InFlightPermit>,
    /// For a watch: resolves when it must end.
    end_signal: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The rest of the current frame.
    rest: Bytes,
    /// Whether the last frame was sent.
    ended: bool,
}

impl ResponseBody {
    /// A response of limited length.
    pub fn whole(body: Body, request_guard: RequestGuard, permit: Option<InFlightPermit>) -> ResponseBody {
        ResponseBody { body, request_guard, _permit: permit, end_signal: None, rest: Bytes::new(), ended: false }
    }

    /// A watch, which ends when `stopped` is set.
    pub fn watch(
        body: Body,
        request_guard: RequestGuard,
        permit: Option<InFlightPermit>,
        mut stopped: watch::Receiver<bool>,
    ) -> ResponseBody {
        let end_signal = async move {
            // A dropped sender means that the edge has stopped.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        ResponseBody { end_signal: Some(Box::pin(end_signal)), ..ResponseBody::whole(body, request_guard, permit) }
    }

    fn next_piece(&mut self) -> Frame<Bytes> {
        self.request_guard.frame_sent();
        Frame::data(self.rest.split_to(self.rest.len().min(MAX_PIECE_BYTES)))
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        this.request_guard.frame_taken();
        if this.ended {
            return Poll::Ready(None);
        }
        if !this.rest.is_empty() {
            return Poll::Ready(Some(Ok(this.next_piece())));
        }
        // Frames come first: events that are known are sent before a watch ends.
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            let Some(Ok(frame)) = frame else { return Poll::Ready(None) };
            // Our bodies have no trailers.
            this.rest = frame.into_data().unwrap_or_default();
            return Poll::Ready(Some(Ok(this.next_piece())));
        }
        if this.end_signal.as_mut().is_none_or(|end_signal| end_signal.as_mut().poll(context).is_pending()) {
            return Poll::Pending;
        }
        this.ended = true;
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.ended || (self.rest.is_empty() && self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let (left, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + left);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + left);
        }
        hint
    }
}
