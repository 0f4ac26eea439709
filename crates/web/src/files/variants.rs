//! A file in other codings: precompressed neighbours of it, or compressed once for all who ask.
//!
//! They hang on the file's own entry in the cache, so that one look-up finds whichever is sent, and
//! they leave it together when the file changes. A file's own representation pays nothing for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use phalanx_http::{Accepted, Coding};

use crate::files::entry::{Entry, FileId};

/// What there is, or may be, beside a file's own representation: one for each of
/// [`Coding::ENCODED`].
pub(crate) struct Variants([Variant; Coding::ENCODED.len()]);

/// A file in one coding.
#[derive(Default)]
struct Variant {
    source: Source,
    /// What came of it, once it is known: none if there is nothing to send.
    made: OnceLock<Option<Arc<Entry>>>,
    /// Somebody makes it.
    begun: AtomicBool,
}

/// Where a variant comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Source {
    /// There is none.
    #[default]
    None,
    /// A file beside this one, in this state.
    Neighbour(FileId),
    /// It is compressed here.
    Made,
}

/// The sources of all variants, in the order of [`Coding::ENCODED`].
pub(crate) type Sources = [Source; Coding::ENCODED.len()];

/// What is to be sent.
pub(crate) enum Choice<'a> {
    /// The file as it is. `begin` says that it is time to make this variant for those who come later.
    Own { begin: Option<Coding> },
    /// A variant that is here. `begin` as above.
    Ready { entry: &'a Entry, begin: Option<Coding> },
    /// This variant, once it is here.
    Wait(Coding),
    /// Nothing that the client takes.
    Refused,
}

impl Variants {
    /// None if there are no sources.
    pub(crate) fn new(sources: Sources) -> Option<Box<Self>> {
        let some = sources.iter().any(|source| *source != Source::None);
        let variant = |source| Variant { source, ..Variant::default() };
        some.then(|| Box::new(Self(sources.map(variant))))
    }

    pub(crate) fn sources(&self) -> Sources {
        self.0.each_ref().map(|variant| variant.source)
    }

    fn get(&self, coding: Coding) -> Option<&Variant> {
        let at = Coding::ENCODED.iter().position(|own| *own == coding)?;
        Some(&self.0[at])
    }

    /// What to send to a client that takes these.
    ///
    /// Whoever would get what is still to be compressed gets the next best meanwhile; neighbours
    /// are waited for, as any file is.
    pub(crate) fn choose(&self, accepted: &Accepted) -> Choice<'_> {
        let mut begin = None;
        let mut wait = None;
        for coding in accepted.in_order() {
            let Some(variant) = self.get(coding) else { return Choice::Own { begin } };
            match (variant.made.get(), variant.source) {
                (Some(Some(entry)), _) => return Choice::Ready { entry, begin },
                (Some(None), _) | (None, Source::None) => (),
                (None, Source::Neighbour(_)) => return self.wait(coding, begin),
                (None, Source::Made) => {
                    wait = wait.or(Some(coding));
                    if begin.is_none() && !variant.begun.swap(true, Ordering::Relaxed) {
                        begin = Some(coding);
                    }
                }
            }
        }
        // It does not take the file as it is, so it has to wait for what there will be.
        match wait {
            Some(coding) => self.wait(coding, begin),
            None => Choice::Refused,
        }
    }

    fn wait(&self, coding: Coding, begin: Option<Coding>) -> Choice<'_> {
        // One thing at a time.
        if let Some(begun) = begin {
            self.give_up(begun);
        }
        Choice::Wait(coding)
    }

    /// The variant, if it is here.
    pub(crate) fn ready(&self, coding: Coding) -> Option<&Arc<Entry>> {
        self.get(coding)?.made.get()?.as_ref()
    }

    /// Where it comes from, if that is still to be found out.
    pub(crate) fn wanted(&self, coding: Coding) -> Option<Source> {
        let variant = self.get(coding)?;
        (variant.made.get().is_none() && variant.source != Source::None).then_some(variant.source)
    }

    /// Says what came of it.
    pub(crate) fn set(&self, coding: Coding, made: Option<Arc<Entry>>) {
        if let Some(variant) = self.get(coding) {
            // Whoever was first has said the same.
            let _ = variant.made.set(made);
        }
    }

    /// Nobody makes it any more, and it is not here: the next may.
    pub(crate) fn give_up(&self, coding: Coding) {
        if let Some(variant) = self.get(coding) {
            variant.begun.store(false, Ordering::Relaxed);
        }
    }

    /// Those that are here.
    pub(crate) fn made(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.0.iter().filter_map(|variant| variant.made.get()?.as_ref())
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

    /// What is chosen, in a word, and what is begun.
    fn chosen(variants: &Variants, accept: &str) -> String {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accept}\r\n\r\n");
        let Ok(Parse::Complete(request, _)) = parse(head.as_bytes(), &Limits::default()) else {
            panic!("{head:?}")
        };
        let begun = |begin: Option<Coding>| begin.map_or("", |coding| coding.name()).to_owned();
        match variants.choose(&Accepted::by(&request)) {
            Choice::Own { begin } => format!("own {}", begun(begin)),
            Choice::Ready { entry, begin } => {
                let Content::Whole(bytes) = &entry.content else { panic!("it is small") };
                format!("{} {}", String::from_utf8_lossy(bytes), begun(begin))
            }
            Choice::Wait(coding) => format!("wait {}", coding.name()),
            Choice::Refused => "refused".into(),
        }
    }

    #[test]
    fn what_is_compressed_is_not_waited_for() {
        let variants = Variants::new([Source::Made; 3]).unwrap();
        assert_eq!(chosen(&variants, "gzip, br"), "own br", "the best is begun");
        assert_eq!(chosen(&variants, "gzip"), "own gzip");
        assert_eq!(chosen(&variants, "gzip, br"), "own ", "by one only");
        assert_eq!(chosen(&variants, "gzip, *;q=0"), "wait gzip", "all that it takes");
        variants.set(Coding::Gzip, Some(entry(Some(Coding::Gzip))));
        assert_eq!(chosen(&variants, "gzip, br"), "gzip ", "the best that is here");
        assert_eq!(chosen(&variants, "zstd, gzip, br"), "gzip zstd");
        variants.give_up(Coding::Brotli);
        assert_eq!(chosen(&variants, "gzip, br"), "gzip br", "it is begun again");
        variants.set(Coding::Brotli, None);
        variants.give_up(Coding::Brotli);
        assert_eq!(chosen(&variants, "br, gzip"), "gzip ", "it was not worth it");
        assert_eq!(chosen(&variants, "br"), "own ");
        assert_eq!(chosen(&variants, "br, identity;q=0"), "refused");
        assert_eq!(chosen(&variants, "identity, gzip;q=0.5"), "own ");
        assert_eq!(variants.made().count(), 1);
    }

    #[test]
    fn neighbours_are_waited_for() {
        let id = FileId::of_length(3);
        let sources = [Source::Made, Source::None, Source::Neighbour(id)];
        let variants = Variants::new(sources).unwrap();
        assert_eq!(variants.sources(), sources);
        assert_eq!(chosen(&variants, "gzip, zstd"), "wait gzip");
        assert_eq!(chosen(&variants, "zstd"), "own ", "there is none");
        assert_eq!(chosen(&variants, "br, gzip"), "wait gzip");
        variants.set(Coding::Gzip, Some(entry(Some(Coding::Gzip))));
        assert_eq!(chosen(&variants, "br, gzip"), "gzip br", "begun once there is something");
        assert_eq!(variants.wanted(Coding::Gzip), None, "it is here");
        assert_eq!(variants.wanted(Coding::Brotli), Some(Source::Made));
        assert!(Variants::new(Sources::default()).is_none());
    }

    #[test]
    fn each_coding_has_its_tag() {
        let (own, gzip) = (entry(None), entry(Some(Coding::Gzip)));
        assert_eq!(own.validators().etag, "\"0-4\"");
        assert_eq!(gzip.validators().etag, "\"0-4-4-gzip\"");
        assert!(own.bytes() > 4 && !own.is_open());
    }
}
