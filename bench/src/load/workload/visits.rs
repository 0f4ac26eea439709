//! Visits of pages, as browsers make them: a new connection, the page, then all of its files at once.
//!
//! A visit counts as one request of the load: its latency ends with the last file. Two thirds of the visitors have been
//! there before; they ask for each file only if it has changed, and resume their TLS session.

use std::path::Path;

use super::zipf::Zipf;
use crate::load::http::http2;
use crate::load::http::requests::{PathsError, read_pages};
use crate::load::http::url::Url;

/// Time of the files by default, in seconds and as in `Last-Modified`. As on a real site, they have not just changed.
pub(crate) const CHANGED: (u64, &str) = (1_700_000_000, "Tue, 14 Nov 2023 22:13:20 GMT");

/// Visitors of whom one is new and has nothing in its cache. They take turns, since a random share would make the costs
/// of short runs differ.
pub(crate) const VISITORS: usize = 3;
/// Files of a page, with the page itself.
const MAX_FILES: usize = 1000;

/// Encoded requests of all pages.
#[derive(Clone, Debug)]
pub(crate) struct Visits {
    pages: Vec<[Visit; 2]>,
    zipf: Zipf,
}

/// The requests of a visit: that of the page first.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) requests: Vec<Box<[u8]>>,
    /// Expected status of each answer.
    pub(crate) status: u16,
}

impl Visit {
    /// Whether the visitor has nothing of the site, and no TLS session to resume.
    pub(crate) fn is_first(&self) -> bool {
        self.status == 200
    }
}

impl Visits {
    /// Reads the pages from `file`: in each line the path of a page and those of its files, the most popular page first.
    /// Returning visitors have the versions of the time `since`.
    pub(crate) fn read(
        file: &Path,
        url: &Url,
        alpha: f64,
        since: &str,
    ) -> Result<Self, PathsError> {
        let encode = |path: &str, since: Option<&str>| {
            let mut bytes = Vec::new();
            http2::fields(&mut bytes, url.tls, &url.authority, path);
            http2::browser_fields(&mut bytes, since);
            bytes.into_boxed_slice()
        };
        let page = |line: &String| {
            [(None, 200), (Some(since), 304)].map(|(since, status)| Visit {
                requests: line.split(' ').map(|path| encode(path, since)).collect(),
                status,
            })
        };
        let pages: Vec<_> = read_pages(file, MAX_FILES)?.iter().map(page).collect();
        Ok(Self { zipf: Zipf::new(pages.len(), alpha), pages })
    }

    /// Draws the page of the visitor with this number.
    pub(crate) fn draw(&self, turn: usize, random: &mut fastrand::Rng) -> &Visit {
        let [new, returning] = &self.pages[self.zipf.draw(random)];
        if turn.is_multiple_of(VISITORS) { new } else { returning }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_visitors_is_new() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pages");
        std::fs::write(&file, "/a.html /a.css /a.js\n\n/b.html\n").unwrap();
        let visits = Visits::read(&file, &"https://a:8/".parse().unwrap(), 9.0, "then").unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let drawn: Vec<_> = (0..300).map(|turn| visits.draw(turn, &mut random)).collect();
        let with = |status| drawn.iter().filter(|visit| visit.status == status).count();
        assert_eq!((with(200), with(304)), (100, 200));
        for visit in &drawn {
            assert!([1, 3].contains(&visit.requests.len()));
            for request in &visit.requests {
                assert_eq!(request.ends_with(b"then"), visit.status == 304);
            }
        }
        std::fs::write(&file, "/a.html a.css\n").unwrap();
        assert!(Visits::read(&file, &"https://a:8/".parse().unwrap(), 0.0, "").is_err());
    }
}
