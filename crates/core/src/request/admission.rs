//! Admission control: limits the requests in flight, so that admitted requests complete in time.
//!
//! An overloaded server that accepts everything completes nothing in time. A request therefore takes a credit
//! when it enters, before any work is done for it. Without a credit it is rejected immediately and cheaply.
//! `credits` computes the number of credits from the queue delay.

use std::fmt;
use std::rc::Rc;

use crate::control::ingress::{Admission, Ingress};
use crate::processor;
use crate::processor::processor::Processor;

/// Permission for a request to be in flight. Dropping it returns the credit.
///
/// ```compile_fail
/// fn leaves_its_thread(permit: phalanx_core::Permit) {
///     std::thread::spawn(move || drop(permit)); // credits are of one processor
/// }
/// ```
#[must_use = "dropping the permit returns its credit"]
pub struct Permit(Rc<Admission>);

/// The reason for a rejected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Shed {
    /// The limit of requests in flight has been reached, since the queue delay exceeds its target.
    #[error("too many operations are in flight")]
    NoCredit,
    /// The session's deadline has passed, so the client no longer waits for the response.
    #[error("the deadline has passed")]
    DeadlinePassed,
}

impl Ingress {
    /// Asks whether a request may begin on this processor. A rejection is counted at the stage of the running
    /// operation. It uses the running cohort's time: it reads no clock and calls no allocator.
    ///
    /// With [`Ingress::Admit`], everything is admitted without congestion. When the queue delay has exceeded the
    /// target for some tens of milliseconds, the number of requests in flight is limited, and the limit follows
    /// the delay. The delay is added over the stages, and for each stage is the smallest of an interval, so that
    /// bursts which are served before the next one do not count. With any other ingress, only requests past their
    /// deadline are rejected.
    ///
    /// ```
    /// use phalanx_core::{Graph, Ingress};
    ///
    /// let mut graph = Graph::new();
    /// graph.ingress(Ingress::Admit { max_queue_delay: Ingress::DEFAULT_MAX_QUEUE_DELAY });
    /// let processor = graph.build(1).remove(0).build(Box::new(|| ()));
    /// processor.enter(|| {
    ///     let permit = Ingress::admit().expect("nothing waits here");
    ///     assert_eq!(Ingress::limit(), None);
    ///     drop(permit); // with the answer
    /// });
    /// ```
    ///
    /// # Errors
    /// [`Shed`]: respond with it, and do no other work.
    ///
    /// # Panics
    /// Outside of a processor.
    #[inline]
    pub fn admit() -> Result<Permit, Shed> {
        processor::current(|p| {
            let (delay, sessions) = (&p.load.delay, &p.waiting.sessions);
            if sessions.is_expired(sessions.current(), p.now()) {
                return Err(shed(p, Shed::DeadlinePassed));
            }
            let admission = &p.load.ingress.admission;
            if !admission.is_current(delay.interval())
                && admission.interval_over(delay.interval(), delay.began(), delay.wait())
            {
                delay.note_limit();
            }
            match admission.credits.borrow_mut().take() {
                true => Ok(Permit(admission.clone())),
                false => Err(shed(p, Shed::NoCredit)),
            }
        })
    }

    /// The number of requests that may be in flight on this processor; none if they are not limited now.
    ///
    /// # Panics
    /// Outside of a processor.
    pub fn limit() -> Option<usize> {
        processor::current(|p| {
            p.load.ingress.admission.credits.borrow().limit().map(|limit| limit as usize)
        })
    }
}

#[cold]
fn shed(processor: &Processor, why: Shed) -> Shed {
    if let Some(slot) = processor.current.running() {
        let counters = processor.stage_counters(slot.stage.get());
        match why {
            Shed::NoCredit => counters.shed_admission.add(1),
            Shed::DeadlinePassed => counters.shed_deadline.add(1),
        }
    }
    why
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        self.0.credits.borrow_mut().give();
    }
}
