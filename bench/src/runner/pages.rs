//! A site of pages whose files have the numbers and sizes that the HTTP Archive reports.
//!
//! A page has 70 files and 1.9 MB as transferred: the sums of [`KINDS`], near the medians of desktop pages in the Web
//! Almanac of 2024. Sizes within a kind are lognormal. Pages share all style sheets and fonts, most scripts and few
//! images.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::site::{Site, write};

/// Files of one kind on a page.
struct Kind {
    extension: &'static str,
    files: usize,
    /// Transferred bytes of all.
    bytes: f64,
    /// Files that all pages share.
    shared: usize,
    /// Whether they are compressed in advance.
    is_text: bool,
}

const KINDS: [Kind; 6] = [
    Kind { extension: "html", files: 1, bytes: 30e3, shared: 0, is_text: true },
    Kind { extension: "css", files: 8, bytes: 78e3, shared: 8, is_text: true },
    Kind { extension: "js", files: 22, bytes: 600e3, shared: 16, is_text: true },
    Kind { extension: "woff2", files: 4, bytes: 130e3, shared: 4, is_text: false },
    Kind { extension: "jpg", files: 33, bytes: 1050e3, shared: 3, is_text: false },
    Kind { extension: "json", files: 2, bytes: 12e3, shared: 0, is_text: true },
];

/// Bytes of text per byte that it takes compressed.
const TEXT_RATIO: f64 = 2.7;
/// Standard deviation of the logarithm of a size.
const SIGMA: f64 = 1.0;

/// Creates a site of this many pages in `directory`, the most popular first.
pub(crate) fn make(directory: &Path, pages: usize) -> io::Result<Site> {
    let (root, paths) = (directory.join("site"), directory.join("paths"));
    fs::create_dir(&root)?;
    let mut random = fastrand::Rng::with_seed(7);
    let sizes: Vec<_> = KINDS.iter().map(|kind| sizes(kind, &mut random)).collect();
    let (mut list, mut probe) = (String::new(), Vec::new());
    for page in 0..pages {
        for (kind, sizes) in KINDS.iter().zip(&sizes) {
            for (file, size) in sizes.iter().enumerate() {
                let extension = kind.extension;
                let name = match file < kind.shared {
                    true => format!("shared{file:03}.{extension}"),
                    false if extension == "html" => format!("file{page:03}.html"),
                    false => format!("page{page:03}-{file:03}.{extension}"),
                };
                let _ = write!(list, "{}/{name}", if extension == "html" { "" } else { " " });
                if page > 0 && file < kind.shared {
                    continue;
                }
                let contents = contents(kind, *size, &mut random);
                write(&root.join(&name), &contents)?;
                if kind.is_text {
                    write(&root.join(format!("{name}.gz")), &compressed(&contents)?)?;
                }
                if page == 0 && extension == "html" {
                    probe = contents;
                }
            }
        }
        list.push('\n');
    }
    fs::write(&paths, list)?;
    Ok(Site { root, paths, has_pages: true, alpha: 1.0, in_order: false, probe })
}

/// Transferred sizes of the files of a kind, in bytes.
fn sizes(kind: &Kind, random: &mut fastrand::Rng) -> Vec<usize> {
    // The sum of twelve uniform numbers is nearly normal.
    let normal = |_| (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    let weights: Vec<f64> = (0..kind.files).map(normal).map(|z| (SIGMA * z).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| (kind.bytes * weight / total) as usize).collect()
}

/// Words that compress as text does, or bytes that do not compress.
fn contents(kind: &Kind, size: usize, random: &mut fastrand::Rng) -> Vec<u8> {
    if !kind.is_text {
        return (0..size).map(|_| random.u8(..)).collect();
    }
    let words: Vec<String> = (0..500)
        .map(|_| (0..random.usize(2..10)).map(|_| random.lowercase()).collect::<String>() + " ")
        .collect();
    let mut text = Vec::new();
    while (text.len() as f64) < size as f64 * TEXT_RATIO {
        text.extend_from_slice(words[random.usize(..words.len())].as_bytes());
    }
    text
}

fn compressed(contents: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(9));
    encoder.write_all(contents)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::site::PROBE;

    #[test]
    fn a_page_has_the_files_and_bytes_of_the_archive() {
        let directory = tempfile::tempdir().unwrap();
        let site = make(directory.path(), 2).unwrap();
        let list = fs::read_to_string(&site.paths).unwrap();
        for page in list.lines() {
            let files: Vec<&str> = page.split(' ').collect();
            assert_eq!(files.len(), 70);
            let bytes = files.iter().map(|file| {
                let file = site.root.join(&file[1..]);
                let coded = file
                    .with_extension(file.extension().unwrap().to_str().unwrap().to_owned() + ".gz");
                fs::metadata(&coded).or_else(|_| fs::metadata(&file)).unwrap().len()
            });
            let bytes = bytes.sum::<u64>() as f64;
            assert!((bytes / 1.9e6 - 1.0).abs() < 0.1, "{bytes}");
        }
        let pages: Vec<&str> = list.lines().map(|page| page.split(' ').next().unwrap()).collect();
        assert_eq!(pages, [PROBE, "/file001.html"]);
        assert_eq!(fs::read(site.root.join(&PROBE[1..])).unwrap(), site.probe);
    }
}
