//! A bad network in front of a server: hands requests on, one at a time, and cuts connections as a list says, one entry for
//! each request, in order, whatever connection it comes on. When the list is used up, everything goes through.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::wire::Message;

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It goes through, and so does its answer.
    Not,
    /// Nothing of it arrives.
    Request,
    /// It arrives, and nobody waits for its answer.
    Sent,
    /// It is answered, and nothing of the answer arrives.
    Answer,
    /// So many bytes of the answer arrive.
    After(usize),
    /// All of the answer but so many bytes arrives.
    ShortOf(usize),
}

#[derive(Clone)]
pub(crate) struct Cutter {
    address: SocketAddr,
    /// While there is nobody, requests wait.
    to: Arc<watch::Sender<Option<SocketAddr>>>,
    plan: Arc<Mutex<VecDeque<Cut>>>,
}

impl Cutter {
    pub(crate) async fn before(to: SocketAddr) -> Cutter {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cutter = Cutter { address, to: Arc::new(watch::Sender::new(Some(to))), plan: Arc::default() };
        let cutting = cutter.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(cutting.clone().connection(stream));
            }
        });
        cutter
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What becomes of the next requests.
    pub(crate) fn plan(&self, cuts: &[Cut]) {
        self.plan.lock().unwrap().extend(cuts);
    }

    /// What of the plan is still to come.
    pub(crate) fn left(&self) -> Vec<Cut> {
        self.plan.lock().unwrap().iter().copied().collect()
    }

    /// Where requests go from now on; with nowhere to go they wait.
    pub(crate) fn aim(&self, to: Option<SocketAddr>) {
        self.to.send_replace(to);
    }

    async fn connection(self, mut caller: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(request) = Message::read(&mut caller, &mut buffer).await {
            let cut = self.plan.lock().unwrap().pop_front().unwrap_or(Cut::Not);
            let Some(answer) = self.exchange(&request, cut).await else { return };
            let arrives = match cut {
                Cut::Not => answer.len(),
                Cut::After(bytes) => bytes,
                Cut::ShortOf(bytes) => answer.len() - bytes,
                Cut::Request | Cut::Sent | Cut::Answer => return,
            };
            assert!(arrives <= answer.len(), "the answer ends before the cut");
            if caller.write_all(&answer[..arrives]).await.is_err() || cut != Cut::Not {
                return;
            }
        }
    }

    /// Hands a request on and reads its answer, on a connection of their own.
    async fn exchange(&self, request: &Message, cut: Cut) -> Option<Vec<u8>> {
        if cut == Cut::Request {
            return None;
        }
        let to = (*self.to.subscribe().wait_for(Option::is_some).await.ok()?)?;
        let mut server = TcpStream::connect(to).await.ok()?;
        server.write_all(&request.bytes()).await.ok()?;
        match cut {
            Cut::Sent => None,
            _ => Some(Message::read(&mut server, &mut Vec::new()).await?.bytes()),
        }
    }
}
