//! Response bodies: complete bytes, a list written as it is read, or a watch.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use http_body::{Frame, SizeHint};

/// The body of a response. It has no task: it produces its next frame when polled.
pub struct Body(BodyKind);

enum BodyKind {
    Whole(Option<Bytes>),
    Stream(BoxStream<'static, Bytes>),
}

impl Body {
    /// A body that is complete already.
    pub fn whole(bytes: Bytes) -> Body {
        Body(BodyKind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    /// A body that is produced frame by frame.
    pub fn stream(frames: impl Stream<Item = Bytes> + Send + 'static) -> Body {
        Body(BodyKind::Stream(frames.boxed()))
    }

    /// The same body with a guard that is dropped with it.
    pub(crate) fn with_guard<G: Send + Sync + 'static>(self, guard: G) -> Body {
        let frames = match self.0 {
            BodyKind::Whole(bytes) => stream::iter(bytes).boxed(),
            BodyKind::Stream(frames) => frames,
        };
        Body::stream(frames.inspect(move |_| {
            let _guard = &guard;
        }))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            BodyKind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            BodyKind::Stream(frames) => {
                frames.poll_next_unpin(context).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, BodyKind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            BodyKind::Stream(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            BodyKind::Whole(_) => "Body(whole)",
            BodyKind::Stream(_) => "Body(stream)",
        })
    }
}
