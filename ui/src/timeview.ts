/* SPDX-License-Identifier: Apache-2.0 */
/* A canvas whose x axis is time: what is seen of it, the axis, and how a person moves in it. Dragging
   moves, the wheel zooms while the canvas has the focus or Ctrl is down, and the keys + - 0 and arrows
   do the same. Its owner paints and says what is under the pointer. */
import { h } from "./dom.ts";
import { seconds, tick } from "./format.ts";
import { color } from "./theme.ts";

export const LABEL = 84; /* pixels for the names of rows */
export const FOOT = 22; /* pixels for the time axis */

export type Scale = (time: number) => number;

interface Owner {
    paint: (ctx: CanvasRenderingContext2D, x: Scale, width: number, height: number) => void;
    /* `part` is below 0 left of the rows; `near` is the time of a few pixels. */
    tell: (at: number, y: number, near: number, part: number) => string;
}

export class TimeView {
    readonly canvas: HTMLCanvasElement;
    readonly readout = h("span", { class: "readout" });
    all: [number, number] = [0, 1];
    private view: [number, number] | null = null; /* null: all, also while it grows */

    constructor(label: string, private readonly owner: Owner, signal: AbortSignal) {
        this.canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": `${label}; plus and minus zoom, arrows move, 0 shows all` });
        const observer = new ResizeObserver(() => this.paint());
        observer.observe(this.canvas);
        signal.addEventListener("abort", () => observer.disconnect());
        document.addEventListener("theme", () => this.paint(), { signal });
        this.listen();
    }

    buttons(): HTMLElement {
        const button = (text: string, label: string, press: () => void) =>
            h("button", { class: "icon", "aria-label": label, title: label, onclick: press }, text);
        return h("span", { class: "zoom" }, button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)),
            button("⟲", "Show all", () => this.set(null)));
    }

    get bounds(): [number, number] {
        return this.view ?? this.all;
    }

    /* Pixels of a time at the present zoom. */
    pixels(time: number): number {
        const [a, b] = this.bounds;
        return (time / (b - a)) * (this.canvas.clientWidth - LABEL);
    }

    set(view: [number, number] | null): void {
        if (view) {
            const span = Math.max(1e-9, Math.min(view[1] - view[0], this.all[1] - this.all[0]));
            const start = Math.max(this.all[0], Math.min(view[0], this.all[1] - span));
            view = span >= this.all[1] - this.all[0] ? null : [start, start + span];
        }
        this.view = view;
        this.paint();
    }

    private zoom(by: number, at = 0.5): void {
        const [a, b] = this.bounds;
        const centre = a + (b - a) * at;
        this.set([centre - (centre - a) * by, centre + (b - centre) * by]);
    }

    private move(part: number): void {
        const [a, b] = this.bounds;
        this.set([a + (b - a) * part, b + (b - a) * part]);
    }

    private listen(): void {
        const part = (event: MouseEvent) => (event.offsetX - LABEL) / Math.max(1, this.canvas.clientWidth - LABEL);
        this.canvas.addEventListener("wheel", (event) => {
            if (!event.ctrlKey && document.activeElement !== this.canvas)
                return;
            event.preventDefault();
            this.zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.max(0, part(event)));
        }, { passive: false });
        let from: number | null = null;
        this.canvas.addEventListener("pointerdown", (event) => {
            from = part(event);
            this.canvas.setPointerCapture(event.pointerId);
        });
        this.canvas.addEventListener("pointerup", () => { from = null; });
        this.canvas.addEventListener("pointermove", (event) => {
            if (from !== null) {
                const to = part(event);
                this.move(from - to);
                from = to;
            }
            const [a, b] = this.bounds;
            this.readout.textContent = this.owner.tell(a + (b - a) * part(event), event.offsetY,
                ((b - a) * 5) / Math.max(1, this.canvas.clientWidth - LABEL), part(event));
        });
        this.canvas.addEventListener("pointerleave", () => this.readout.replaceChildren());
        this.canvas.addEventListener("dblclick", () => this.set(null));
        this.canvas.addEventListener("keydown", (event) => {
            const keys: Record<string, () => void> = {
                "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), "0": () => this.set(null),
                ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2),
            };
            const press = keys[event.key];
            if (press) {
                event.preventDefault();
                event.stopPropagation();
                press();
            }
        });
    }

    paint(): void {
        const { canvas } = this;
        const width = canvas.clientWidth;
        const height = canvas.clientHeight;
        if (!width || !height)
            return;
        canvas.width = width * devicePixelRatio;
        canvas.height = height * devicePixelRatio;
        const ctx = canvas.getContext("2d")!;
        ctx.scale(devicePixelRatio, devicePixelRatio);
        ctx.font = "12px system-ui, sans-serif";
        ctx.textBaseline = "middle";
        const [a, b] = this.bounds;
        this.owner.paint(ctx, (time) => LABEL + ((time - a) / (b - a)) * (width - LABEL), width, height);
    }

    /* What is painted until `restore` stays right of the names. */
    clip(ctx: CanvasRenderingContext2D, width: number, height: number): void {
        ctx.save();
        ctx.beginPath();
        ctx.rect(LABEL, 0, width - LABEL, height);
        ctx.clip();
    }

    axis(ctx: CanvasRenderingContext2D, x: Scale, width: number, top: number): void {
        const [a, b] = this.bounds;
        const step = niceStep((b - a) / Math.max(2, (width - LABEL) / 110));
        ctx.fillStyle = ctx.strokeStyle = color("dim");
        ctx.textAlign = "center";
        ctx.globalAlpha = 0.9;
        for (let time = Math.ceil(a / step) * step; time <= b; time += step) {
            ctx.fillRect(x(time), top, 1, 4);
            const text = tick(seconds(Math.abs(time) < step / 1e6 ? 0 : time));
            const half = ctx.measureText(text).width / 2;
            ctx.fillText(text, Math.max(LABEL + half, Math.min(width - half, x(time))), top + 13);
        }
        ctx.globalAlpha = 1;
        ctx.textAlign = "left";
    }
}

/* 1, 2 or 5 times a power of ten, at least this large. */
export function niceStep(least: number): number {
    const power = 10 ** Math.floor(Math.log10(least));
    const factor = least / power;
    return (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10) * power;
}
