//! Compresses large responses for clients that accept gzip. Small ones gain nothing, and the events of a watch must not
//! wait until a block is full.

use std::collections::VecDeque;
use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::BodyExt;

use crate::response::body::Body;
use crate::server::LongRunning;

/// Responses of at least this size are compressed, as upstream.
const MIN_COMPRESSED_BYTES: usize = 128 << 10;
/// Compressed bytes are sent in frames of about this size.
const FRAME_BYTES: usize = 32 << 10;
/// Bytes are compressed in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;

/// Whether a client with these headers accepts gzip.
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let quality = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse::<f32>().ok());
        is_gzip && quality.is_none_or(|quality| quality > 0.0)
    })
}

/// The response, compressed if it is large.
pub(super) async fn compress(response: Response<Body>) -> Response<Body> {
    let is_coded = response.headers().contains_key(header::CONTENT_ENCODING);
    let exact = http_body::Body::size_hint(response.body()).exact();
    let is_small = exact.is_some_and(|bytes| bytes < MIN_COMPRESSED_BYTES as u64);
    if is_coded || is_small || response.extensions().get::<LongRunning>().is_some() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let gzip = GzipStream::begin(body).await;
    if gzip.body.is_none() && gzip.pending_bytes() < MIN_COMPRESSED_BYTES {
        return Response::from_parts(parts, Body::whole(Bytes::from(Vec::from(gzip.pending).concat())));
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let frames = stream::unfold(gzip, |mut gzip| async move { Some((gzip.next_frame().await?, gzip)) });
    Response::from_parts(parts, Body::stream(frames))
}

/// A body that is being compressed.
struct GzipStream {
    /// Read, but not compressed yet.
    pending: VecDeque<Bytes>,
    /// The unread rest; `None` at the end.
    body: Option<Body>,
    /// `None` after the last byte.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl GzipStream {
    /// Reads enough to know whether the body is large.
    async fn begin(body: Body) -> GzipStream {
        // As upstream: time matters most, and the fastest level gives most of the gain.
        let encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let mut gzip = GzipStream { pending: VecDeque::new(), body: Some(body), encoder: Some(encoder) };
        while gzip.pending_bytes() < MIN_COMPRESSED_BYTES && gzip.read().await {}
        gzip
    }

    fn pending_bytes(&self) -> usize {
        self.pending.iter().map(Bytes::len).sum()
    }

    /// Reads the next frame; false at the end.
    async fn read(&mut self) -> bool {
        let Some(body) = &mut self.body else { return false };
        match body.frame().await {
            Some(Ok(frame)) => self.pending.extend(frame.into_data().ok()),
            Some(Err(never)) => match never {},
            None => self.body = None,
        }
        self.body.is_some()
    }

    async fn next_frame(&mut self) -> Option<Bytes> {
        let mut encoder = self.encoder.take()?;
        while encoder.get_ref().len() < FRAME_BYTES {
            let Some(first) = self.pending.front_mut() else {
                if self.read().await {
                    continue;
                }
                return Some(encoder.finish().expect("writing to memory does not fail").into());
            };
            let piece = first.split_to(first.len().min(PIECE_BYTES));
            if first.is_empty() {
                self.pending.pop_front();
            }
            encoder.write_all(&piece).expect("writing to memory does not fail");
        }
        let frame = std::mem::take(encoder.get_mut());
        self.encoder = Some(encoder);
        Some(frame.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn gzip_is_sent_to_clients_that_accept_it() {
        for (text, want) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("deflate,gzip", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, br", false),
            ("identity", false),
            ("*", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, text.parse().unwrap())]);
            assert_eq!(is_accepted(&headers), want, "{text:?}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }

    /// Bytes that do not repeat much.
    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    #[tokio::test]
    async fn large_bodies_are_compressed_whatever_their_frames() {
        for count in [0, 1, MIN_COMPRESSED_BYTES - 1, MIN_COMPRESSED_BYTES, MIN_COMPRESSED_BYTES + 1, 3_000_000] {
            for frame_bytes in [1000, 65_536, 4_000_000] {
                let whole = bytes(count);
                let frames: Vec<Bytes> = whole.chunks(frame_bytes).map(Bytes::copy_from_slice).collect();
                let bodies = [Body::stream(stream::iter(frames)), Body::whole(whole.clone().into())];
                for body in bodies {
                    let response = compress(Response::new(body)).await;
                    let is_compressed = response.headers().contains_key(header::CONTENT_ENCODING);
                    let sent = response.into_body().collect().await.unwrap().to_bytes();
                    assert_eq!(is_compressed, count >= MIN_COMPRESSED_BYTES, "{count} in {frame_bytes}");
                    let mut read = Vec::new();
                    match is_compressed {
                        true => drop(GzDecoder::new(&sent[..]).read_to_end(&mut read).unwrap()),
                        false => read.extend_from_slice(&sent),
                    }
                    assert!(read == whole, "{count} in {frame_bytes}");
                }
            }
        }
    }
}
