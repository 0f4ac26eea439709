//! The flow control of a lane: data arrive in order, within a window that the receiver advances as it processes them.

use phalanx::time::now;

use crate::lane::frame::{Data, NodeFrame};
use crate::lane::{Lane, LaneOptions, Sent};

/// Bytes that a node may send ahead of what the other node has processed. Larger if a packet may be larger.
const WINDOW: u64 = 1 << 20;

/// Bytes of a packet that do not count towards the maximum packet size.
const HEADER_BYTES: usize = 5;

/// How often a lane repeats its acknowledgements, which NATS may have lost, within the timeout.
const ACKNOWLEDGEMENTS_PER_TIMEOUT: u32 = 5;

/// Maximum number of data bytes in one NATS message.
const MAX_CHUNK: usize = 256 * 1024;

/// Maximum bytes of a frame in addition to its data.
const FRAME_BYTES: usize = 64;

impl Lane {
    /// The window of both directions, in bytes. The largest packet has to fit, because an incomplete packet is not
    /// processed.
    fn window(&self) -> u64 {
        let LaneOptions { max_incoming_packet, max_outgoing_packet, .. } = &self.options;
        WINDOW.max(((*max_incoming_packet).max(*max_outgoing_packet) + HEADER_BYTES) as u64)
    }

    /// Handles a data frame of the other node.
    pub(crate) fn receive(&self, data: Data<'_>) {
        let Data { offset, received, processed, bytes, .. } = data;
        if received > self.sent.get() || processed > received {
            return self.close("the node acknowledges data that was not sent");
        }
        let before = self.acknowledged.get();
        if received > before.0 {
            self.last_progress.set(now());
        }
        self.acknowledged.set((before.0.max(received), before.1.max(processed)));
        if processed > before.1 {
            self.writer.notify();
        }
        self.update_lag();
        if bytes.is_empty() || self.is_closed() {
            return;
        }
        if offset != self.received.get() {
            return self.close("NATS lost data");
        }
        if self.received.get() + bytes.len() as u64 > self.processed.get() + 2 * self.window() {
            return self.close("the node exceeds its window");
        }
        self.received.set(offset + bytes.len() as u64);
        self.options.status.received.add(bytes.len() as u64);
        self.input.borrow_mut().extend_from_slice(bytes);
        self.reader.notify();
    }

    /// Records that `bytes` more of the input were processed.
    pub(super) fn add_processed(&self, bytes: usize) {
        self.processed.set(self.processed.get() + bytes as u64);
        // Smaller progress is acknowledged with the next data, or by `tick`.
        if self.processed.get() - self.last_acknowledged.get().1 > WINDOW / 4 {
            self.acknowledge();
        }
    }

    /// Sends bytes as data, and waits while the window or the connection to NATS is full.
    pub(super) async fn send(&self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            if let Some(reason) = self.close_reason() {
                return Err(reason);
            }
            let available =
                (self.acknowledged.get().1 + self.window()).saturating_sub(self.sent.get());
            let chunk = MAX_CHUNK.min(self.options.max_payload.saturating_sub(FRAME_BYTES)).max(1);
            let (next, rest) = bytes.split_at(bytes.len().min(chunk).min(available as usize));
            if !next.is_empty() && self.send_data(next) {
                bytes = rest;
            } else if !self.is_closed() {
                self.writer.notified().await;
            }
        }
        Ok(())
    }

    /// Sends one chunk. Returns whether NATS accepted it.
    fn send_data(&self, bytes: &[u8]) -> bool {
        let (received, processed) = (self.received.get(), self.processed.get());
        let offset = self.sent.get();
        let data = Data { lane: self.id(), offset, received, processed, bytes };
        match self.send_frame(&NodeFrame::Data(data)) {
            Sent::Yes => {
                if self.acknowledged.get().0 == offset && !bytes.is_empty() {
                    // Nothing was in flight, so the timeout begins now.
                    self.last_progress.set(now());
                }
                self.sent.set(offset + bytes.len() as u64);
                self.options.status.sent.add(bytes.len() as u64);
                self.last_acknowledged.set((received, processed));
                self.last_acknowledged_at.set(now());
                self.update_lag();
                true
            }
            Sent::Full => false,
            Sent::TooLarge(reason) | Sent::Failed(reason) => {
                self.close(&reason);
                false
            }
        }
    }

    fn acknowledge(&self) {
        self.send_data(&[]);
    }

    /// Called at intervals: sends acknowledgements, and closes a lane that makes no progress.
    pub(crate) fn tick(&self) {
        let is_old = now().saturating_sub(self.last_acknowledged_at.get())
            > self.options.timeout / ACKNOWLEDGEMENTS_PER_TIMEOUT;
        if is_old || self.last_acknowledged.get() != (self.received.get(), self.processed.get()) {
            self.acknowledge();
        }
        let is_waiting = self.sent.get() > self.acknowledged.get().0;
        if is_waiting && now().saturating_sub(self.last_progress.get()) > self.options.timeout {
            self.close("the node receives nothing");
        }
        self.writer.notify();
    }

    fn update_lag(&self) {
        let lag = self.sent.get().saturating_sub(self.acknowledged.get().1);
        self.options.status.lag.set(lag as i64);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::Duration;

    use phalanx::{sim, sleep};

    use super::*;
    use crate::peers::Peers;

    /// Runs a test on a simulated processor, which has a clock.
    fn run(test: impl FnOnce() + 'static) {
        sim::block_on(0, None, |_| (), move |()| async move { test() });
    }

    /// Payloads that a lane sent.
    type Payloads = Rc<RefCell<Vec<Vec<u8>>>>;

    /// A lane that sends to a list.
    fn lane() -> (Rc<Lane>, Payloads) {
        let (sent, peers) = (Rc::new(RefCell::new(Vec::new())), Peers::new("a"));
        let (own, node) = (sent.clone(), Arc::from("b"));
        let lane = Lane::new(LaneOptions {
            id: 7,
            status: peers.status.node(&node),
            node,
            peers,
            send: Box::new(move |payload| {
                own.borrow_mut().push(payload.to_vec());
                Sent::Yes
            }),
            max_payload: 1 << 20,
            max_incoming_packet: 1 << 20,
            max_outgoing_packet: 1 << 20,
            timeout: Duration::from_secs(5),
            known: HashSet::new(),
        });
        (lane, sent)
    }

    fn data(offset: u64, bytes: &[u8]) -> Data<'_> {
        Data { lane: 7, offset, received: 0, processed: 0, bytes }
    }

    #[test]
    fn missing_data_ends_a_lane() {
        run(|| {
            let (lane, sent) = lane();
            lane.receive(data(0, b"abc"));
            lane.receive(data(3, b"d"));
            assert_eq!(*lane.input.borrow(), b"abcd");
            lane.tick();
            let acknowledgement = sent.borrow_mut().pop().unwrap();
            let expected = Data { received: 4, ..data(0, b"") };
            assert_eq!(NodeFrame::decode(&acknowledgement), Some(NodeFrame::Data(expected)));
            lane.tick();
            assert!(sent.borrow().is_empty(), "an acknowledgement is sent once");
            lane.receive(data(5, b"f"));
            assert_eq!(lane.close_reason().as_deref(), Some("NATS lost data"));
            let closed = NodeFrame::Close { lane: 7, reason: "NATS lost data" };
            assert_eq!(NodeFrame::decode(&sent.borrow_mut().pop().unwrap()), Some(closed));
        });
    }

    #[test]
    fn a_large_packet_stays_in_place_until_it_is_complete() {
        sim::block_on(
            0,
            None,
            |_| (),
            |()| async {
                let (lane, _) = lane();
                // The fixed header of a PUBLISH with 128 KiB.
                let head = [0x30, 0x80, 0x80, 0x08];
                lane.receive(data(0, &head));
                lane.input.borrow_mut().reserve_exact(1 << 20);
                let (capacity, mut packets) = (lane.input.borrow().capacity(), Vec::new());
                for part in 0..2 {
                    lane.receive(data(4 + part * 1000, &[0; 1000]));
                    let reading = Box::pin(lane.read(&mut packets));
                    phalanx::select(reading, sleep(Duration::from_millis(1))).await;
                    assert_eq!(lane.input.borrow().capacity(), capacity, "it was copied");
                }
            },
        );
    }

    #[test]
    fn a_node_that_exceeds_its_window_is_left() {
        run(|| {
            let (lane, _) = lane();
            let bytes = vec![0; 2 * lane.window() as usize];
            lane.receive(data(0, &bytes));
            assert!(!lane.is_closed());
            lane.receive(data(bytes.len() as u64, b"x"));
            assert_eq!(lane.close_reason().as_deref(), Some("the node exceeds its window"));
        });
    }

    #[test]
    fn a_node_that_acknowledges_too_much_is_left() {
        run(|| {
            for (received, processed) in [(1, 0), (0, 1)] {
                let (lane, _) = lane();
                lane.receive(Data { received, processed, ..data(0, b"") });
                assert!(lane.close_reason().unwrap().contains("not sent"));
            }
        });
    }

    #[test]
    fn lost_acknowledgements_are_repeated() {
        sim::block_on(
            0,
            None,
            |_| (),
            |()| async {
                let (lane, sent) = lane();
                lane.receive(data(0, b"abc"));
                lane.tick();
                let last_acknowledged = sent.borrow_mut().pop().unwrap();
                sleep(Duration::from_secs(2)).await;
                lane.tick();
                assert_eq!(sent.borrow_mut().pop(), Some(last_acknowledged));
            },
        );
    }
}
