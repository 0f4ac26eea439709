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
