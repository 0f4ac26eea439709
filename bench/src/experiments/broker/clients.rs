//! The clients of one broker, driven by one thread that keeps the windows of all publishers full.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use phalanx_mqtt::{Kind, QoS};

use super::Options;
use super::client::Client;
use super::message::{TOPIC, Template, filters, id, reason, sent, templates};
use super::shape::{Setting, Shape};

/// Timeout for messages in flight at the end of a slice.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Poll timeout, after which the clock is checked.
const TICK: Duration = Duration::from_millis(5);

/// All clients: the publishers first, then the subscribers.
pub(super) struct Clients {
    poll: Poll,
    events: Events,
    clients: Vec<Client>,
    publishers: Vec<Publisher>,
    templates: Vec<Template>,
    next: usize,
    setting: Setting,
    payload: usize,
    began: Instant,
    pub(super) counts: Counts,
    pub(super) latency: Histogram<u64>,
}

/// Number of events so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) delivered: u64,
    pub(super) acknowledged: u64,
}

#[derive(Default)]
struct Publisher {
    /// Copies of its messages not yet received by subscribers.
    owed: usize,
    /// Its messages not yet acknowledged.
    unacknowledged: usize,
    id: u16,
}

impl Clients {
    /// Connects publishers to the first server and subscribers to the second, and subscribes; sessions of subscribers
    /// are persistent if `kept`. The shape `filters` takes a while; `progress` receives the number of filters of each
    /// client.
    pub(super) fn start(
        (first, second): (SocketAddr, SocketAddr),
        kept: bool,
        setting: Setting,
        options: &Options,
        seed: u64,
        mut progress: impl FnMut(usize),
    ) -> io::Result<Self> {
        let shape = setting.shape;
        let (publishers, subscribers) = (shape.publishers(), shape.subscribers());
        let mut wanted = filters(options.workload, seed);
        let mut clients = Vec::new();
        for n in 0..publishers {
            let nothing = std::iter::empty();
            let name = format!("publisher-{n}");
            clients.push(Client::start(first, &name, nothing, setting.qos, false)?);
        }
        for n in 0..subscribers {
            let name = format!("subscriber-{n}");
            clients.push(match shape {
                Shape::Filters => {
                    let share = options.filters / subscribers
                        + usize::from(n < options.filters % subscribers);
                    let own = wanted.by_ref().take(share);
                    let client = Client::start(second, &name, own, QoS::AtMostOnce, false)?;
                    progress(share);
                    client
                }
                _ => {
                    let group = if shape == Shape::Shared { "$share/bench/" } else { "" };
                    let topic = std::iter::once(format!("{group}{TOPIC}"));
                    Client::start(second, &name, topic, setting.qos, kept)?
                }
            });
        }
        let poll = Poll::new()?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        for (n, client) in clients.iter().enumerate() {
            let socket = client.stream.as_raw_fd();
            poll.registry().register(&mut SourceFd(&socket), Token(n), interest)?;
        }
        Ok(Self {
            poll,
            events: Events::with_capacity(1024),
            clients,
            publishers: (0..publishers).map(|_| Publisher::default()).collect(),
            templates: templates(setting, options.payload, options.workload, seed.wrapping_add(1)),
            next: 0,
            setting,
            payload: options.payload,
            began: Instant::now(),
            counts: Counts::default(),
            latency: Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds"),
        })
    }

    /// Publishes for the given time and does not wait for messages in flight.
    pub(super) fn run(&mut self, length: Duration) -> io::Result<()> {
        let until = Instant::now() + length;
        match self.setting.shape.rate() {
            None => {
                while Instant::now() < until {
                    self.publish_all()?;
                    self.turn(TICK)?;
                }
            }
            Some(rate) => {
                let step = Duration::from_secs_f64(1.0 / rate);
                let mut due = Instant::now();
                while due < until {
                    // Poll without sleeping, so that a message is seen when it arrives.
                    self.turn(Duration::ZERO)?;
                    if Instant::now() >= due {
                        self.publish(0, 1, due)?;
                        due += step;
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits for all messages in flight.
    ///
    /// # Errors
    /// When some do not arrive within the timeout: the broker has lost a message.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        let until = Instant::now() + SETTLE_TIMEOUT;
        while self.publishers.iter().any(|one| one.owed + one.unacknowledged > 0) {
            if Instant::now() > until {
                let lost: usize = self.publishers.iter().map(|one| one.owed).sum();
                let unanswered: usize = self.publishers.iter().map(|one| one.unacknowledged).sum();
                let reason =
                    format!("{lost} messages did not arrive, {unanswered} were not acknowledged");
                return Err(io::Error::other(reason));
            }
            self.turn(TICK)?;
        }
        Ok(())
    }

    /// Ends all sessions.
    pub(super) fn leave(self) -> io::Result<()> {
        self.clients.into_iter().try_for_each(Client::leave)
    }

    /// Refills the window of each publisher for which half of it has arrived.
    fn publish_all(&mut self) -> io::Result<()> {
        let window = self.setting.shape.window();
        let copies = self.setting.shape.copies();
        for n in 0..self.publishers.len() {
            let Publisher { owed, unacknowledged, .. } = self.publishers[n];
            let in_flight = copies.map_or(0, |copies| owed.div_ceil(copies)).max(unacknowledged);
            if in_flight <= window / 2 && self.clients[n].out.is_empty() {
                self.publish(n, window - in_flight, Instant::now())?;
            }
        }
        Ok(())
    }

    fn publish(&mut self, n: usize, count: usize, at: Instant) -> io::Result<()> {
        let (client, publisher) = (&mut self.clients[n], &mut self.publishers[n]);
        let now = at.saturating_duration_since(self.began).as_nanos() as u64;
        for _ in 0..count {
            publisher.id = publisher.id.checked_add(1).unwrap_or(1);
            let id = NonZero::new(publisher.id).expect("wraps to 1");
            self.templates[self.next].write(&mut client.out, id, now, n as u32);
            self.next = (self.next + 1) % self.templates.len();
        }
        publisher.owed += count * self.setting.shape.copies().unwrap_or(0);
        publisher.unacknowledged += count * usize::from(self.setting.qos != QoS::AtMostOnce);
        client.flush()
    }

    /// Waits for events and handles them.
    fn turn(&mut self, timeout: Duration) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        let now = self.began.elapsed().as_nanos() as u64;
        let Self { publishers, counts, latency, payload, .. } = self;
        let mut wrong = None;
        for event in &self.events {
            let Token(n) = event.token();
            let client = &mut self.clients[n];
            if event.is_readable() || event.is_read_closed() {
                client.receive(|packet, out| match kind(packet) {
                    Some(Kind::Publish) => {
                        counts.delivered += 1;
                        let (from, at) = sent(packet, *payload);
                        let publisher = &mut publishers[from as usize];
                        publisher.owed = publisher.owed.saturating_sub(1);
                        latency.saturating_record(now.saturating_sub(at));
                        if let Some(id) = id(packet) {
                            // PUBACK.
                            out.extend([0x40, 2]);
                            out.extend(id.get().to_be_bytes());
                        }
                    }
                    Some(Kind::PubAck) => {
                        counts.acknowledged += 1;
                        publishers[n].unacknowledged -= 1;
                        if reason(packet) >= 0x80 {
                            wrong = Some("the broker rejected a message");
                        }
                    }
                    _ => wrong = Some("the broker sent an unexpected packet"),
                })?;
            }
            if !client.out.is_empty() {
                client.flush()?;
            }
        }
        wrong.map_or(Ok(()), |reason| Err(io::Error::other(reason)))
    }
}

fn kind(packet: &[u8]) -> Option<Kind> {
    match packet[0] >> 4 {
        3 => Some(Kind::Publish),
        4 => Some(Kind::PubAck),
        _ => None,
    }
}
