// selftest: task=starter/softmax
// Loops without a loop statement, backwards, with a sum in double precision; and hardly a blank.
extern "C" void kernel(const float*x,const int64_t*x_shape,float*out,const int64_t*out_shape){const int64_t C=x_shape[1];int64_t r=x_shape[0],c;float m;double s;
row:if(!r--)goto done;m=x[r*C],c=C;
most:if(c-->0){m=std::fmax(m,x[r*C+c]);goto most;}
s=0,c=C;
sum:if(c-->0){s+=out[r*C+c]=std::exp(x[r*C+c]-m);goto sum;}
c=C;
write:if(c-->0){out[r*C+c]=(float)(out[r*C+c]/s);goto write;}
goto row;done:;}
