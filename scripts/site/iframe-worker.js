// A page that is opened from a folder (file:) may start no worker. Its script then runs in a hidden frame, which answers
// to the same calls: the search works without a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.onmessage = null;
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      const script = document.createElement("script");
      script.src = new URL(address, document.baseURI).href;
      this.frame.srcdoc = script.outerHTML;
      this.frame.onload = () => {
        this.frame.contentWindow.postMessage = (data) => this.receive(data);
        this.waiting.splice(0).forEach((data) => this.send(data));
        this.waiting = null;
      };
      document.documentElement.append(this.frame);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.send(data);
    }

    send(data) {
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }));
    }

    receive(data) {
      setTimeout(() => {
        const event = new MessageEvent("message", { data: structuredClone(data) });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
