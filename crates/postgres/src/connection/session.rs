//! A connection that is ready for queries: takes batches of the queue, one after the other.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use phalanx::shutdown::{draining, is_draining};
use phalanx::{select, timeout};
use postgres_protocol::message::frontend;

use super::cancel::CancelKey;
use super::exchange::Exchange;
use super::link::Link;
use super::prepare::prepare;
use super::prepared::{Prepared, error_of, unexpected};
use super::result::ResultBounds;
use super::startup;
use crate::error::Fault;
use crate::pool::Pool;
use crate::queue::Pending;

/// The time for which an idle connection stays open when the program drains: operations that complete may execute one
/// statement after the other.
const LINGER: Duration = Duration::from_millis(20);

/// A connection that is ready for queries.
pub(crate) struct Session {
    pool: Rc<Pool>,
    link: Link,
    key: Option<CancelKey>,
    prepared: Prepared,
}

impl Session {
    /// Connects and authenticates.
    pub(crate) async fn open(pool: &Rc<Pool>) -> Result<Self, Fault> {
        let limit = pool.config.connect_timeout;
        let opened = phalanx::timeout(limit, async {
            let link = Link::open(&pool.config, pool.stage).await?;
            let key = startup::authenticate(&link, &pool.config).await?;
            Ok::<_, Fault>((link, key))
        });
        let (link, key) = opened.await.map_err(|_| Fault::TimedOut(limit))??;
        Ok(Self { pool: pool.clone(), link, key, prepared: Prepared::default() })
    }

    /// Serves queries until the connection or the program ends.
    ///
    /// # Errors
    /// How the connection ended, if it has not served a single batch.
    pub(crate) async fn run(mut self) -> Result<(), Fault> {
        let mut is_proven = false;
        loop {
            match self.serve_batch().await {
                Ok(true) => {
                    self.pool.reset_failures();
                    is_proven = true;
                }
                Ok(false) => return Ok(()),
                Err(_) if is_proven => return Ok(()),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Waits for queries and serves a batch of them. Returns false if the program drains and nothing waits.
    async fn serve_batch(&mut self) -> Result<bool, Fault> {
        if !self.wait_for_queries().await? {
            return Ok(false);
        }
        let batch = self.pool.queue.borrow_mut().take(self.pool.config.max_batch);
        // Another connection may serve the rest.
        self.pool.wake();
        let exchanged = self.exchange(batch).await;
        if let Err(Fault::TimedOut(_)) = exchanged {
            self.cancel();
        }
        exchanged.map(|()| true)
    }

    /// Starts an operation that cancels the statement in progress. If the stage is full, the server continues.
    fn cancel(&self) {
        if let Some(key) = self.key {
            let pool = self.pool.clone();
            let _ =
                self.pool.stage.dispatch(move |_| async move { key.cancel(&pool.config).await });
        }
    }

    /// Returns false if the program drains and nothing waits.
    async fn wait_for_queries(&mut self) -> Result<bool, Fault> {
        let (pool, mut has_lingered) = (self.pool.clone(), false);
        loop {
            self.link.process(|frame| match frame.tag {
                b'E' => error_of(frame).map(drop),
                _ => Err(unexpected(frame)),
            })?;
            self.link.check()?;
            if !pool.queue.borrow().is_empty() {
                return Ok(true);
            }
            if has_lingered {
                let mut terminate = BytesMut::new();
                frontend::terminate(&mut terminate);
                let _ = self.link.send(terminate).await;
                return Ok(false);
            }
            let _idle = pool.idle(self.link.signal());
            let notified = self.link.signal().notified();
            if is_draining() {
                has_lingered = timeout(LINGER, notified).await.is_err();
            } else {
                select(notified, draining()).await;
            }
        }
    }

    /// Sends a batch and handles its answers. All of its queries are answered or back in the queue then.
    async fn exchange(&mut self, mut batch: VecDeque<Pending>) -> Result<(), Fault> {
        let Self { pool, link, prepared, .. } = self;
        let limit = pool.config.query_timeout;
        if let Err(fault) = prepare(link, prepared, &mut batch, limit).await {
            pool.queue.borrow_mut().requeue(batch.into());
            return Err(fault);
        }
        if batch.is_empty() {
            return Ok(());
        }
        let mut exchange = Exchange::new(batch, ResultBounds::of(&pool.config));
        let mut message = prepared.take_closing();
        exchange.encode(&mut message);
        let process = |link: &Link| {
            link.process(|frame| exchange.handle(frame, prepared))?;
            Ok(exchange.is_over())
        };
        let exchanged = link.exchange(message, limit, process).await;
        let repeat = match &exchanged {
            Ok(()) => exchange.finish(prepared),
            Err(fault) => exchange.abandon(fault),
        };
        pool.queue.borrow_mut().requeue(repeat);
        exchanged
    }
}
