//! Admission control: limiting the requests in flight so that admitted requests complete in time.
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
pub struct Permit {
    admission: Rc<Admission>,
    /// The interval in which the credit was taken.
    interval: u64,
}

/// The reason for a rejected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Shed {
    /// The limit on requests in flight has been reached. There is a limit because the queue delay exceeds its target.
    #[error("too many operations are in flight")]
    NoCredit,
    /// The session's deadline has passed, so the client no longer waits for the response.
    #[error("the deadline has passed")]
    DeadlinePassed,
}

impl Ingress {
    /// Requests a permit to begin a request on this processor. A rejection is counted at the stage of the running
    /// operation. The call uses the time of the running cohort; it reads no clock and allocates nothing.
    ///
    /// With [`Ingress::Admit`], every request is admitted while there is no congestion. When the queue delay has
    /// exceeded the target for some tens of milliseconds, the number of requests in flight is limited, and the limit is
    /// adjusted to the delay. The queue delay is the sum of the delays of all stages. The delay of a stage is the
    /// minimum over an interval, so that short bursts do not count. With any other ingress, only requests past their
    /// deadline are rejected.
    ///
    /// A permit counts towards the limit only for its first sixteen intervals, of at least 10 ms each. A request that
    /// takes longer is probably waiting for its client and not for this processor, and slow clients must not cause the
    /// rejection of other requests.
    ///
    /// ```
    /// use phalanx_core::{Graph, Ingress};
    ///
    /// let mut graph = Graph::new();
    /// graph.ingress(Ingress::Admit { max_queue_delay: Ingress::DEFAULT_MAX_QUEUE_DELAY });
    /// let processor = graph.build(1).remove(0).build(Box::new(|| ()));
    /// processor.enter(|| {
    ///     let permit = Ingress::admit().expect("there is no congestion");
    ///     assert_eq!(Ingress::limit(), None);
    ///     drop(permit); // with the answer
    /// });
    /// ```
    ///
    /// # Errors
    /// [`Shed`]. Respond with an error and do no other work.
    ///
    /// # Panics
    /// If called outside a processor.
    #[inline]
    pub fn admit() -> Result<Permit, Shed> {
        processor::current(|p| {
            let (delay, sessions) = (&p.load.delay, &p.waiting.sessions);
            if sessions.is_expired(sessions.current(), p.now()) {
                return Err(shed(p, Shed::DeadlinePassed));
            }
            let admission = &p.load.ingress.admission;
            if !admission.is_current(delay.interval())
                && admission.interval_over(delay.interval(), delay.interval_start(), delay.wait())
            {
                delay.note_limit();
            }
            match admission.credits.borrow_mut().acquire() {
                Some(interval) => Ok(Permit { admission: admission.clone(), interval }),
                None => Err(shed(p, Shed::NoCredit)),
            }
        })
    }

    /// The number of requests that may be in flight on this processor; `None` if there is currently no limit.
    ///
    /// # Panics
    /// If called outside a processor.
    pub fn limit() -> Option<usize> {
        processor::current(|p| {
            p.load.ingress.admission.credits.borrow().limit().map(|limit| limit as usize)
        })
    }
}

#[cold]
fn shed(processor: &Processor, reason: Shed) -> Shed {
    if let Some(slot) = processor.current.running() {
        let counters = processor.stage_counters(slot.stage.get());
        match reason {
            Shed::NoCredit => counters.shed_admission.add(1),
            Shed::DeadlinePassed => counters.shed_deadline.add(1),
        }
    }
    reason
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        self.admission.credits.borrow_mut().release(self.interval);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::future::pending;
    use std::rc::Rc;

    use super::Shed;
    use crate::world::IdleWorld;
    use crate::{Graph, Ingress, Session};

    #[test]
    fn every_permit_is_returned() {
        let mut graph = Graph::new();
        graph.ingress(Ingress::Admit { max_queue_delay: Ingress::DEFAULT_MAX_QUEUE_DELAY });
        let stage = graph.shared("stage", ());
        let processor = graph.build(1).remove(0).build(Box::new(|| ()));
        let credits = &processor.load.ingress.admission.credits;
        let in_flight = || credits.borrow().in_flight();
        let run = || while processor.turn(&IdleWorld).ran > 0 {};
        let refused = Rc::new(Cell::new(0));
        let session = processor.enter(|| {
            let session = Session::new();
            let admit = |count| (0..count).map(|_| Ingress::admit().expect("no limit yet"));
            // Requests that complete, that panic, and that wait until their session ends.
            for permit in admit(5) {
                stage.dispatch(move |_| async move { drop(permit) }).unwrap();
            }
            for permit in admit(5) {
                let fails = move |_| async move {
                    let _permit = permit;
                    panic!("a failing request");
                };
                stage.dispatch(fails).unwrap();
            }
            for permit in admit(5) {
                let waits = move |_| async move {
                    let _permit = permit;
                    pending::<()>().await;
                };
                session.scope(|| stage.dispatch(waits)).unwrap();
            }
            session
        });
        assert_eq!(in_flight(), 15);
        run();
        assert_eq!(in_flight(), 5, "those that wait");
        // Long waits limit the requests in flight to fewer than there are.
        (0..10).for_each(|_| credits.borrow_mut().interval_over(u64::MAX, 1));
        let limit = processor.enter(Ingress::limit);
        assert!(limit.is_some_and(|limit| limit <= 5), "{limit:?}");
        processor.enter(|| {
            let refused = refused.clone();
            let asks = move |_| async move {
                assert_eq!(Ingress::admit().map(drop), Err(Shed::NoCredit));
                refused.set(refused.get() + 1);
            };
            stage.dispatch(asks).unwrap();
        });
        run();
        assert_eq!((refused.get(), in_flight()), (1, 5), "a refused request holds no permit");
        drop(processor.enter(|| session.end()));
        run();
        assert_eq!((in_flight(), processor.live()), (0, 0));
    }
}
