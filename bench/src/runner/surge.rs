//! A site with SURGE's sizes of files, popularity and reference stream.

use std::io;
use std::path::Path;

use crate::load::workload::surge;

use super::site::Site;

/// Requests in a reference stream for each file: 6,638,449 for 1,000,000 in the 2002 paper.
const REQUESTS_PER_FILE: f64 = 6.638;

/// The files and the order in which they are requested.
pub(crate) struct SurgeSite {
    sizes: Vec<usize>,
    stream: Option<Vec<usize>>,
}

impl SurgeSite {
    /// A site of this many files. If it is `whole`, the tail of the sizes is not cut, and requests have SURGE's
    /// temporal locality.
    pub(crate) fn new(files: usize, whole: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(1);
        let most = if whole { f64::INFINITY } else { surge::MAX_BODY };
        let sizes = surge::sizes(files, most, &mut random);
        let requests = (files as f64 * REQUESTS_PER_FILE) as usize;
        let stream = whole.then(|| surge::stream(files, requests, &mut random));
        Self { sizes, stream }
    }

    /// Size of all files in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.sizes.iter().map(|size| *size as u64).sum()
    }

    /// Writes the files.
    pub(crate) fn make(&self, directory: &Path) -> io::Result<Site> {
        let site = Site::of(directory, &self.sizes, 1.0)?;
        match &self.stream {
            Some(stream) => site.requested_as(stream),
            None => Ok(site),
        }
    }
}
