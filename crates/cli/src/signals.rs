//! Signals that ask for the end: Ctrl-C, a polite kill, a terminal that is closed.
//!
//! They are received by a thread of their own, so that they count even when every thread of the server hangs in a read.
//! Nobody who is asked politely may leave processes behind, so a first signal is passed on. But the end has to come: a
//! signal that nobody takes, because the program is stopping or stuck, ends it at once.

use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How long the program may take to stop once it was asked to. Longer than all that it does in order: see
/// [`setup::stop`](crate::setup::stop).
const LONGEST_STOP: Duration = Duration::from_secs(20);

/// What the first signal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The program is to stop, within [`LONGEST_STOP`].
    Stop,
    /// Whoever takes it decides.
    Ask,
}

/// Receives signals. Once it is dropped, the next signal ends the program at once.
pub(crate) struct Interrupts(Receiver<()>);

impl Interrupts {
    /// Listens from now on: no signal is missed once this returns.
    pub(crate) fn listen(meaning: Meaning) -> anyhow::Result<Self> {
        // One at a time: a second signal means that nobody has taken the first.
        let (sender, receiver) = channel(1);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(async {
                    let signals = Signals::listen();
                    let listening =
                        signals.as_ref().map(drop).map_err(|error| std::io::Error::from(error.kind()));
                    drop(ready.send(listening));
                    if let Ok(signals) = signals {
                        pass_on(signals, &sender, meaning).await;
                    }
                }),
                Err(error) => drop(ready.send(Err(error))),
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(thread).context("cannot start a thread")?;
        is_ready.recv().context("the thread for signals ended")?.context("cannot listen to signals")?;
        Ok(Self(receiver))
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Passes signals on until one has to end the program.
async fn pass_on(mut signals: Signals, sender: &Sender<()>, meaning: Meaning) {
    loop {
        let number = signals.next().await;
        if sender.try_send(()).is_err() {
            exit(number);
        }
        if meaning == Meaning::Stop {
            // The next one, or the end of patience: whichever comes first ends it.
            let again = tokio::time::timeout(LONGEST_STOP, signals.next()).await;
            exit(again.unwrap_or(number));
        }
    }
}

/// Ends the program now, with the code that shells know for a signal. Prints nothing: standard error may be what hangs.
#[allow(
    clippy::disallowed_methods,
    reason = "main is what hangs, or what the person does not want to wait for"
)]
fn exit(number: i32) -> ! {
    std::process::exit(128 + number)
}

/// The signals that ask for the end.
struct Signals([(SignalKind, Signal); 3]);

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let listen = |kind| signal(kind).map(|signal| (kind, signal));
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    /// The number of the next signal.
    async fn next(&mut self) -> i32 {
        let [interrupt, terminate, hangup] = &mut self.0;
        let kind = tokio::select! {
            _ = interrupt.1.recv() => interrupt.0,
            _ = terminate.1.recv() => terminate.0,
            _ = hangup.1.recv() => hangup.0,
        };
        kind.as_raw_value()
    }
}
