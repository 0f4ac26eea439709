//! Compression of file content, on a thread that may block, once per version of a file.

use std::io::{self, Write};

use phalanx_http::Coding;

/// Smaller files are not compressed, in bytes: the savings are less than a packet.
pub(crate) const MIN_BYTES: u64 = 1024;
/// Larger files are not compressed here, in bytes. A build step can compress them better
/// ([`HostConfig::precompressed`](crate::HostConfig::precompressed)).
pub(crate) const MAX_BYTES: u64 = 4 << 20;

/// The best level that compresses tens of megabytes per second on one core. The result is sent many times,
/// but the first clients wait for it.
const BROTLI_QUALITY: i32 = 6;
const ZSTD_LEVEL: i32 = 10;
const GZIP_LEVEL: u32 = 7;
/// 4 MiB: no file here is larger.
const BROTLI_WINDOW: i32 = 22;

/// Compresses `content`. Returns `None` if that saves less than 5 %.
pub(crate) fn encode(content: &[u8], coding: Coding) -> Option<Vec<u8>> {
    let encoded = match coding {
        Coding::Brotli => brotli(content),
        Coding::Zstd => zstd::bulk::compress(content, ZSTD_LEVEL),
        Coding::Gzip => gzip(content),
        Coding::Identity => return None,
    };
    // Writing to memory does not fail; if it did, the file would be sent uncompressed.
    let mut encoded = encoded.ok()?;
    encoded.shrink_to_fit();
    (encoded.len() <= content.len() - content.len() / 20).then_some(encoded)
}

fn brotli(content: &[u8]) -> io::Result<Vec<u8>> {
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: BROTLI_QUALITY,
        lgwin: BROTLI_WINDOW,
        size_hint: content.len(),
        ..Default::default()
    };
    let mut out = Vec::with_capacity(content.len() / 3);
    brotli::BrotliCompress(&mut &content[..], &mut out, &parameters)?;
    Ok(out)
}

fn gzip(content: &[u8]) -> io::Result<Vec<u8>> {
    let out = Vec::with_capacity(content.len() / 3);
    let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::new(GZIP_LEVEL));
    encoder.write_all(content)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

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

    #[test]
    fn encoded_content_decodes() {
        let text: Vec<u8> = (0..20_000)
            .flat_map(|n: u32| format!("line {} of it\n", n * n % 977).into_bytes())
            .collect();
        for coding in Coding::ENCODED {
            let encoded = encode(&text, coding).expect("text becomes smaller");
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
            assert_eq!(encode(&noise, coding), None, "{coding:?}");
            assert_eq!(encode(b"", coding), None, "{coding:?}");
        }
    }
}
