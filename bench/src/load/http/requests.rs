//! The requests: encoded once, and drawn at random.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx_http::client::write_get;

use super::http2;
use super::url::{Url, is_target};
use crate::load::workload::zipf::Zipf;

/// Errors of a file of paths.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathsError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file contains no path.
    #[error("{} contains no path", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line is not a path.
    #[error("{}:{line}: {text:?} is not a path: a path begins with / and has no white space", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The line.
        text: String,
    },
}

/// The paths in `file`, one per line, without empty lines and lines that begin with `#`.
pub(crate) fn read_paths(file: &Path) -> Result<Vec<String>, PathsError> {
    read_pages(file, 1)
}

/// The lines in `file` with up to `most` paths each, separated by spaces, without empty lines and lines that begin with
/// `#`.
pub(crate) fn read_pages(file: &Path, most: usize) -> Result<Vec<String>, PathsError> {
    let path = || file.to_owned();
    let text =
        fs::read_to_string(file).map_err(|source| PathsError::Read { path: path(), source })?;
    let mut paths = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.split(' ').count() > most || !line.split(' ').all(is_target) {
            let text = line.chars().take(80).collect();
            return Err(PathsError::Line { path: path(), line: at + 1, text });
        }
        paths.push(line.to_owned());
    }
    if paths.is_empty() { Err(PathsError::Empty { path: path() }) } else { Ok(paths) }
}

/// Encoding of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// HTTP/1.1.
    One { keep_alive: bool },
    /// HTTP/2: the fields of a request.
    Two,
}

/// Encoded requests for a set of paths, with their popularity.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    bytes: Vec<u8>,
    /// End of each request; each begins at the end of the one before.
    ends: Vec<usize>,
    zipf: Zipf,
    /// The number of the next request, if they are sent in order.
    next: Option<Arc<AtomicUsize>>,
}

impl Requests {
    /// The requests, to be drawn.
    pub(crate) fn new(url: &Url, paths: &[String], alpha: f64, form: Form) -> Self {
        let mut bytes = Vec::new();
        let write = |path: &String| {
            match form {
                Form::One { keep_alive } => {
                    write_get(&mut bytes, &url.authority, path, keep_alive);
                }
                Form::Two => http2::fields(&mut bytes, url.tls, &url.authority, path),
            }
            bytes.len()
        };
        let ends: Vec<usize> = paths.iter().map(write).collect();
        Self { bytes, zipf: Zipf::new(ends.len(), alpha), ends, next: None }
    }

    /// The requests, to be sent in order from this one on.
    pub(crate) fn in_order_from(self, first: usize) -> Self {
        Self { next: Some(Arc::new(AtomicUsize::new(first))), ..self }
    }

    /// Draws the next request.
    #[inline]
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> &[u8] {
        let at = match &self.next {
            _ if self.ends.len() == 1 => 0,
            Some(next) => next.fetch_add(1, Ordering::Relaxed) % self.ends.len(),
            None => self.zipf.draw(random),
        };
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_drawn_whole() {
        let url: Url = "http://a:81/".parse().unwrap();
        let requests = Requests::new(
            &url,
            &["/x".into(), "/long?q".into()],
            0.0,
            Form::One { keep_alive: true },
        );
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100 {
            let text = str::from_utf8(requests.draw(&mut random)).unwrap();
            let path = text.strip_prefix("GET ").unwrap().split(' ').next().unwrap();
            assert!(["/x", "/long?q"].contains(&path));
            assert!(text.ends_with(" HTTP/1.1\r\nHost: a:81\r\n\r\n"), "{text:?}");
        }
    }

    #[test]
    fn requests_in_order_begin_again() {
        let url: Url = "http://a:81/".parse().unwrap();
        let form = Form::One { keep_alive: true };
        let paths = ["/x", "/y", "/z"].map(String::from);
        let requests = Requests::new(&url, &paths, 1.0, form).in_order_from(2);
        let mut random = fastrand::Rng::with_seed(1);
        for path in ["/z", "/x", "/y", "/z"] {
            let request = str::from_utf8(requests.draw(&mut random)).unwrap();
            assert!(request.starts_with(&format!("GET {path} ")), "{request}");
        }
    }

    #[test]
    fn files_of_paths() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("paths");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            read_paths(&file)
        };
        assert_eq!(read("# popular first\n/a\r\n\n/b?c\n").unwrap(), ["/a", "/b?c"]);
        assert!(matches!(read("\n#\n"), Err(PathsError::Empty { .. })));
        assert!(matches!(read("/a\nb\n"), Err(PathsError::Line { line: 2, .. })));
        assert!(matches!(read_paths(&file.join("no")), Err(PathsError::Read { .. })));
    }
}
