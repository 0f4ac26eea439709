//! Other encodings of a file: precompressed files next to it, or compressed once for all requests.
//!
//! They are stored in the file's cache entry, so that one lookup finds all of them, and they are evicted with the file.
//! Files without other encodings have no overhead.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use phalanx_http::{Accepted, Coding};

use crate::files::entry::{Entry, FileId};

/// The other encodings of a file, one per element of [`Coding::ENCODED`].
pub(crate) struct Variants([Variant; Coding::ENCODED.len()]);

/// A file in one encoding.
#[derive(Default)]
struct Variant {
    source: Source,
    /// The entry, once creation has ended; the inner `None` means that the encoding is unavailable.
    result: OnceLock<Option<Arc<Entry>>>,
    /// Whether an operation is creating the entry.
    is_started: AtomicBool,
}

/// Source of an encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Source {
    /// Unavailable.
    #[default]
    None,
    /// A precompressed file in this version.
    Precompressed(FileId),
    /// Compression by the server.
    Compressed,
}

/// The sources of all encodings, in the order of [`Coding::ENCODED`].
pub(crate) type Sources = [Source; Coding::ENCODED.len()];

/// The representation to send.
pub(crate) enum Choice<'a> {
    /// The unencoded file. `begin` is an encoding to create for later requests.
    Own { begin: Option<Coding> },
    /// An encoding that is available. `begin` as above.
    Ready { entry: &'a Entry, begin: Option<Coding> },
    /// An encoding that has to be created or read first.
    Wait(Coding),
    /// The client accepts no available encoding.
    Refused,
}

impl Variants {
    /// Returns `None` if there are no sources.
    pub(crate) fn new(sources: Sources) -> Option<Box<Self>> {
        let has_source = sources.iter().any(|source| *source != Source::None);
        let variant = |source| Variant { source, ..Variant::default() };
        has_source.then(|| Box::new(Self(sources.map(variant))))
    }

    pub(crate) fn sources(&self) -> Sources {
        self.0.each_ref().map(|variant| variant.source)
    }

    fn get(&self, coding: Coding) -> Option<&Variant> {
        let at = Coding::ENCODED.iter().position(|known| *known == coding)?;
        Some(&self.0[at])
    }

    /// Chooses the representation for a client that accepts `accepted`.
    ///
    /// While the best encoding is being compressed, the client gets the next best. A precompressed file is only read,
    /// so the client waits for it.
    pub(crate) fn choose(&self, accepted: &Accepted) -> Choice<'_> {
        let mut begin = None;
        let mut wait = None;
        for coding in accepted.in_order() {
            let Some(variant) = self.get(coding) else { return Choice::Own { begin } };
            match (variant.result.get(), variant.source) {
                (Some(Some(entry)), _) => return Choice::Ready { entry, begin },
                (Some(None), _) | (None, Source::None) => (),
                (None, Source::Precompressed(_)) => return self.wait(coding, begin),
                (None, Source::Compressed) => {
                    wait = wait.or(Some(coding));
                    if begin.is_none() && !variant.is_started.swap(true, Ordering::Relaxed) {
                        begin = Some(coding);
                    }
                }
            }
        }
        // The client does not accept the unencoded file, so it must wait.
        match wait {
            Some(coding) => self.wait(coding, begin),
            None => Choice::Refused,
        }
    }

    fn wait(&self, coding: Coding, begin: Option<Coding>) -> Choice<'_> {
        // A client waits for at most one encoding.
        if let Some(coding) = begin {
            self.abandon(coding);
        }
        Choice::Wait(coding)
    }

    /// The encoding, if it is available.
    pub(crate) fn ready(&self, coding: Coding) -> Option<&Arc<Entry>> {
        self.get(coding)?.result.get()?.as_ref()
    }

    /// The source of an encoding that was not created yet.
    pub(crate) fn pending_source(&self, coding: Coding) -> Option<Source> {
        let variant = self.get(coding)?;
        (variant.result.get().is_none() && variant.source != Source::None).then_some(variant.source)
    }

    pub(crate) fn set_result(&self, coding: Coding, result: Option<Arc<Entry>>) {
        if let Some(variant) = self.get(coding) {
            // If there is an earlier result, it is the same.
            let _ = variant.result.set(result);
        }
    }

    /// Allows another operation to create the encoding.
    pub(crate) fn abandon(&self, coding: Coding) {
        if let Some(variant) = self.get(coding) {
            variant.is_started.store(false, Ordering::Relaxed);
        }
    }

    /// The encodings that exist so far.
    pub(crate) fn available(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.0.iter().filter_map(|variant| variant.result.get()?.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use phalanx_http::{Limits, Parse, parse};

    use super::*;
    use crate::files::entry::Content;

    fn entry(coding: Option<Coding>) -> Arc<Entry> {
        let own = Entry::of("file");
        Arc::new(match coding {
            Some(coding) => own.encoded(coding, coding.name().into()),
            None => own,
        })
    }

    /// The choice and the encoding to create, as text.
    fn chosen(variants: &Variants, accept: &str) -> String {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accept}\r\n\r\n");
        let Ok(Parse::Complete(request, _)) = parse(head.as_bytes(), &Limits::default()) else {
            panic!("{head:?}")
        };
        let started = |begin: Option<Coding>| begin.map_or("", |coding| coding.name()).to_owned();
        match variants.choose(&Accepted::by(&request)) {
            Choice::Own { begin } => format!("own {}", started(begin)),
            Choice::Ready { entry, begin } => {
                let Content::Whole(bytes) = &entry.content else { panic!("it is small") };
                format!("{} {}", String::from_utf8_lossy(bytes), started(begin))
            }
            Choice::Wait(coding) => format!("wait {}", coding.name()),
            Choice::Refused => "refused".into(),
        }
    }

    #[test]
    fn compression_is_not_waited_for() {
        let variants = Variants::new([Source::Compressed; 3]).unwrap();
        assert_eq!(chosen(&variants, "gzip, br"), "own br", "the best is begun");
        assert_eq!(chosen(&variants, "gzip"), "own gzip");
        assert_eq!(chosen(&variants, "gzip, br"), "own ", "begun once only");
        assert_eq!(chosen(&variants, "gzip, *;q=0"), "wait gzip", "nothing else is acceptable");
        variants.set_result(Coding::Gzip, Some(entry(Some(Coding::Gzip))));
        assert_eq!(chosen(&variants, "gzip, br"), "gzip ", "the best available");
        assert_eq!(chosen(&variants, "zstd, gzip, br"), "gzip zstd");
        variants.abandon(Coding::Brotli);
        assert_eq!(chosen(&variants, "gzip, br"), "gzip br", "it is begun again");
        variants.set_result(Coding::Brotli, None);
        variants.abandon(Coding::Brotli);
        assert_eq!(chosen(&variants, "br, gzip"), "gzip ", "it was not worth it");
        assert_eq!(chosen(&variants, "br"), "own ");
        assert_eq!(chosen(&variants, "br, identity;q=0"), "refused");
        assert_eq!(chosen(&variants, "identity, gzip;q=0.5"), "own ");
        assert_eq!(variants.available().count(), 1);
    }

    #[test]
    fn precompressed_files_are_waited_for() {
        let id = FileId::of_length(3);
        let sources = [Source::Compressed, Source::None, Source::Precompressed(id)];
        let variants = Variants::new(sources).unwrap();
        assert_eq!(variants.sources(), sources);
        assert_eq!(chosen(&variants, "gzip, zstd"), "wait gzip");
        assert_eq!(chosen(&variants, "zstd"), "own ", "there is none");
        assert_eq!(chosen(&variants, "br, gzip"), "wait gzip");
        variants.set_result(Coding::Gzip, Some(entry(Some(Coding::Gzip))));
        assert_eq!(chosen(&variants, "br, gzip"), "gzip br", "begun once there is something");
        assert_eq!(variants.pending_source(Coding::Gzip), None, "it is here");
        assert_eq!(variants.pending_source(Coding::Brotli), Some(Source::Compressed));
        assert!(Variants::new(Sources::default()).is_none());
    }

    #[test]
    fn each_encoding_has_its_tag() {
        let (own, gzip) = (entry(None), entry(Some(Coding::Gzip)));
        assert_eq!(own.validators().etag, "\"0-4\"");
        assert_eq!(gzip.validators().etag, "\"0-4-4-gzip\"");
        assert!(own.bytes() > 4 && own.open_files() == 0);
    }
}
