"""RocketMQ: the remoting protocol of 4.x clients and name servers, and the gRPC protocol of 5.x clients."""
