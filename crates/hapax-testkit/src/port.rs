//! A port that stays a test's own while nobody listens on it.
//!
//! A port that was free a moment ago may be somebody else's by the time that a server is started on it. One that is bound and
//! not listened on is given to nobody who asks for any port, and whoever connects to it is refused; and a server that names it
//! can listen there, if it sets `SO_REUSEADDR`: PostgreSQL does, and so do the listeners of the standard library and of tokio.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A port of 127.0.0.1, kept until the value is dropped.
#[derive(Debug)]
pub struct Port {
    _kept: Socket,
    address: SocketAddr,
}

impl Port {
    /// Finds one and keeps it.
    pub fn reserve() -> io::Result<Port> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Port { _kept: socket, address })
    }

    /// The port.
    pub fn number(&self) -> u16 {
        self.address.port()
    }

    /// The port with its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn nobody_is_there_until_somebody_who_was_told_listens_and_then_again_nobody() {
        let port = Port::reserve().unwrap();
        for _ in 0..2 {
            assert!(TcpStream::connect(port.address()).is_err(), "nobody listens");
            let listener = TcpListener::bind(port.address()).unwrap();
            TcpStream::connect(port.address()).unwrap();
            assert!(listener.accept().is_ok());
        }
    }
}
