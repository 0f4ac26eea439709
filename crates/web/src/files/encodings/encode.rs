//! Compression of file content, on a thread that may block, once per version of a file.

use std::io::{self, Read};

use phalanx_http::Coding;

/// Smaller files are not compressed, in bytes: the savings are less than a packet.
pub(crate) const MIN_BYTES: u64 = 1024;
/// Larger files are not compressed here, in bytes. A build step can compress them better
/// ([`HostConfig::precompressed`](crate::HostConfig::precompressed)).
pub(crate) const MAX_BYTES: u64 = 4 << 20;

/// The highest level that still compresses tens of megabytes per second on one core. The result is sent many times, but
/// the first clients may wait for it.
const BROTLI_QUALITY: i32 = 6;
const ZSTD_LEVEL: i32 = 10;
const GZIP_LEVEL: u32 = 7;
/// A window of 4 MiB, because larger files are not compressed.
const BROTLI_WINDOW: i32 = 22;

/// Compresses `content`. Calls `is_wanted` before each block, and stops if it returns false. Returns `None` if
/// compression saves less than 5 %.
///
/// # Errors
/// If the result was no longer wanted.
pub(crate) fn encode(
    content: &[u8],
    coding: Coding,
    is_wanted: &dyn Fn() -> bool,
) -> io::Result<Option<Vec<u8>>> {
    let blocks = Blocks { rest: content, is_wanted };
    let mut encoded = match coding {
        Coding::Brotli => brotli(blocks)?,
        Coding::Zstd => zstd(blocks)?,
        Coding::Gzip => gzip(blocks)?,
        Coding::Identity => return Ok(None),
    };
    encoded.shrink_to_fit();
    Ok((encoded.len() <= content.len() - content.len() / 20).then_some(encoded))
}

/// A reader over content that stops when the result is no longer wanted.
struct Blocks<'a> {
    rest: &'a [u8],
    is_wanted: &'a dyn Fn() -> bool,
}

impl Blocks<'_> {
    /// Memory for the result.
    fn out(&self) -> Vec<u8> {
        Vec::with_capacity(self.rest.len() / 3)
    }
}

impl Read for Blocks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !(self.is_wanted)() {
            return Err(io::Error::other("the result is no longer wanted"));
        }
        self.rest.read(buffer)
    }
}

fn brotli(mut content: Blocks<'_>) -> io::Result<Vec<u8>> {
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: BROTLI_QUALITY,
        lgwin: BROTLI_WINDOW,
        size_hint: content.rest.len(),
        ..Default::default()
    };
    let mut out = content.out();
    brotli::BrotliCompress(&mut content, &mut out, &parameters)?;
    Ok(out)
}

fn zstd(mut content: Blocks<'_>) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::Encoder::new(content.out(), ZSTD_LEVEL)?;
    // The encoder tunes its parameters to the length, and stores it in the frame.
    encoder.set_pledged_src_size(Some(content.rest.len() as u64))?;
    io::copy(&mut content, &mut encoder)?;
    encoder.finish()
}

fn gzip(mut content: Blocks<'_>) -> io::Result<Vec<u8>> {
    let level = flate2::Compression::new(GZIP_LEVEL);
    let mut encoder = flate2::write::GzEncoder::new(content.out(), level);
    io::copy(&mut content, &mut encoder)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn decode(encoded: &[u8], coding: Coding) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            Coding::Brotli => {
                brotli::BrotliDecompress(&mut &encoded[..], &mut out).unwrap();
            }
            Coding::Zstd => out = zstd::stream::decode_all(encoded).unwrap(),
            Coding::Gzip => {
                flate2::read::GzDecoder::new(encoded).read_to_end(&mut out).unwrap();
            }
            Coding::Identity => out.extend_from_slice(encoded),
        }
        out
    }

    fn text() -> Vec<u8> {
        let lines = (0..20_000).map(|n: u32| format!("line {} of it\n", n * n % 977));
        lines.flat_map(String::into_bytes).collect()
    }

    #[test]
    fn encoded_content_decodes() {
        let text = text();
        for coding in Coding::ENCODED {
            let encoded = encode(&text, coding, &|| true).unwrap().expect("text becomes smaller");
            assert!(encoded.len() < text.len() / 2, "{coding:?}: {}", encoded.len());
            assert!(decode(&encoded, coding) == text, "{coding:?}");
        }
    }

    #[test]
    fn incompressible_content_is_left_alone() {
        let mut state = 1u64;
        let noise: Vec<u8> = (0..10_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for coding in Coding::ENCODED {
            assert_eq!(encode(&noise, coding, &|| true).unwrap(), None, "{coding:?}");
            assert_eq!(encode(b"", coding, &|| true).unwrap(), None, "{coding:?}");
        }
    }

    #[test]
    fn it_stops_at_the_next_block() {
        let text = text();
        for coding in Coding::ENCODED {
            let blocks = Cell::new(0);
            let is_wanted = || blocks.replace(blocks.get() + 1) < 5;
            assert!(encode(&text, coding, &is_wanted).is_err(), "{coding:?}");
            assert_eq!(blocks.get(), 6, "{coding:?}");
        }
    }
}
